"""Choosing among candidates where a simulator can be rehearsed, as ScienceWorld's can.

The corridor's `hop east` is understood but never listed: a rehearsal executes it, an environment's list does not admit
it. `glide east` has no listed name at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from actfirst.records import Task
from actfirst.references.candidates import Candidate
from actfirst.references.rehearsal import Rehearsal
from actfirst.references.shorten import Budget
from actfirst.references.trials import Chosen, Trials, actions_of
from actfirst.references.workbench import Workbench
from tests.references.worlds import tasks
from tests.support.toy_world import CorridorEnvironment, CorridorWorld

ROOMS4 = tasks()[2]
STRAIGHT = ("go east", "go east", "go east", "pull lever")


@dataclass
class Hall:
    """Rehearses corridors: executes whatever the simulator understands."""

    names: dict[str, str] = field(default_factory=lambda: {"hop east": "go east"})
    played: list[tuple[str, ...]] = field(default_factory=list)

    def score(self, task: Task, actions: Sequence[str]) -> float:
        self.played.append(tuple(actions))
        environment = CorridorEnvironment()
        environment.reset(task)
        scores = [environment.step(action.replace("glide", "hop")).score for action in actions]
        return max(scores, default=0.0)

    def reword(self, task: Task, actions: Sequence[str]) -> tuple[str, ...]:
        known = (self.names.get(action, action) for action in actions)
        return tuple(action for action in known if action != "glide east")

    def close(self) -> None: ...


class HallBench(Workbench):
    def __init__(self, hall: Hall) -> None:
        super().__init__(CorridorWorld())
        self.hall = hall

    @property
    def rehearsal(self) -> Rehearsal | None:
        return self.hall


def choose(*lists: tuple[str, ...], hall: Hall | None = None, budget: Budget | None = None) -> Chosen | None:
    trials = Trials(HallBench(hall or Hall()), budget)
    return trials.choose(ROOMS4, [Candidate(actions, "gold") for actions in lists])


def test_a_candidate_is_shortened_and_then_worded_as_the_environment_admits_it() -> None:
    chosen = choose(
        ("look", "hop east", "go west", "hop east", "hop east", "hop east", "pull lever"), budget=Budget()
    )
    assert chosen is not None
    assert actions_of(chosen.reference) == STRAIGHT
    assert (chosen.reference.score, chosen.cut) == (100.0, 3)


def test_a_minimal_list_whose_every_action_has_its_wording_is_not_shortened_again() -> None:
    hall = Hall()
    chosen = choose(("hop east", "hop east", "hop east", "pull lever"), hall=hall, budget=Budget())
    assert chosen is not None
    assert actions_of(chosen.reference) == STRAIGHT
    assert all("go east" not in part for part in hall.played), (
        "the new wording was played, in the environment alone"
    )


def test_where_the_short_list_cannot_be_worded_the_whole_list_is() -> None:
    """Three steps east are needed and four are there. Shortening drops the first hop and keeps the glide."""
    whole = ("hop east", "hop east", "glide east", "hop east", "pull lever")
    hall = Hall()
    chosen = choose(whole, hall=hall, budget=Budget())
    assert chosen is not None
    assert actions_of(chosen.reference) == STRAIGHT
    assert ("hop east", "glide east", "hop east", "pull lever") in hall.played


def test_the_most_promising_candidate_is_prepared_and_others_only_if_it_disappoints() -> None:
    hall = Hall()
    chosen = choose(STRAIGHT, (*STRAIGHT[:1], "go west", *STRAIGHT), ("go east",), hall=hall)
    assert chosen is not None
    assert actions_of(chosen.reference) == STRAIGHT
    assert len(hall.played) == 3, "each is rehearsed once; without a budget nothing else is asked"
    gliding = ("glide east", "glide east", "glide east", "pull lever")
    disappointed = choose(gliding, ("go east", "go west", *STRAIGHT))
    assert disappointed is not None
    assert actions_of(disappointed.reference)[-4:] == STRAIGHT


def test_candidates_that_promise_nothing_are_not_prepared() -> None:
    assert choose(("go east",), ()) is None
    assert choose(("glide east", "glide east", "glide east", "pull lever")) is None, (
        "promises, and keeps nothing"
    )
