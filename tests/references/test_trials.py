"""Choosing among candidates where a simulator can be rehearsed, as ScienceWorld's can.

The corridor's `hop east` is understood but never listed: a rehearsal executes it, an environment's list does not admit
it. `glide east` has no listed name at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from actfirst.environments.solving import Budget, Rehearsal
from actfirst.records import Observation, Reference, ReferenceStep, Task
from actfirst.references.build.trials import Chosen, Trials, Workbench, actions_of
from actfirst.references.sources import Candidate
from tests.references.worlds import tasks
from tests.support.toy_world import CORRIDOR, CorridorEnvironment, CorridorWorld

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
        super().__init__(CORRIDOR, CorridorWorld())
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


STUBBORN = ("a", "b", "c", "d", "e", "win")
PADDED = ("x", "y", "win now", "x", "x", "x", "x", "x")


class Puzzle(Hall):
    """`win now` wins; so does STUBBORN, of which nothing can be left out."""

    def score(self, task: Task, actions: Sequence[str]) -> float:
        self.played.append(tuple(actions))
        return 100.0 if tuple(actions) == STUBBORN or "win now" in actions else 0.0


class PuzzleBench(HallBench):
    """Its environment says what its rehearsal says; `quick`: it is quick enough to need none."""

    def __init__(self, quick: bool) -> None:
        super().__init__(Puzzle())
        self.quick = quick
        self.tried: list[tuple[str, ...]] = []

    @property
    def rehearsal(self) -> Rehearsal | None:
        return None if self.quick else self.hall

    def try_out(self, task: Task, candidate: Candidate) -> Reference:
        self.tried.append(candidate.actions)
        seen = Observation("", (), score=Puzzle().score(task, candidate.actions))
        steps = tuple(ReferenceStep(action, seen) for action in candidate.actions)
        return Reference(task.id, seen, steps, candidate.source, seen.score)


@pytest.mark.parametrize("quick", [True, False])
def test_of_equally_good_candidates_the_one_that_is_shortest_after_shortening_is_chosen(quick: bool) -> None:
    trials = Trials(PuzzleBench(quick), Budget())
    chosen = trials.choose(ROOMS4, [Candidate(STUBBORN, "gold"), Candidate(PADDED, "teacher")])
    assert chosen is not None
    assert (actions_of(chosen.reference), chosen.reference.source, chosen.cut) == (("win now",), "teacher", 7)


def test_of_many_equally_good_candidates_the_shortest_few_are_prepared() -> None:
    bench = PuzzleBench(quick=False)
    lists = [(f"from {n}", *("x",) * n, "win now") for n in range(6)]
    Trials(bench, None).choose(ROOMS4, [Candidate(actions, "teacher") for actions in reversed(lists)])
    assert bench.tried == lists[:3]


@pytest.mark.parametrize("replays", [0, 1, 6, 12])
def test_a_task_has_one_budget_whatever_is_shortened_for_it(replays: int) -> None:
    """Each of these lists is shortened, and again in the environment's wording, and again as a whole."""
    whole = ("hop east", "hop east", "glide east", "hop east", "pull lever")
    lists = (whole, ("go east", "go west", *whole), (*whole[:1], "go west", *whole))
    hall = Hall()
    trials = Trials(HallBench(hall), Budget(replays=replays))
    for _ in range(2):
        hall.played.clear()
        assert trials.choose(ROOMS4, [Candidate(actions, "gold") for actions in lists]) is not None
        assert len(hall.played) <= len(lists) + replays, "the next task has a budget of its own"


def test_seconds_are_shared_as_replays_are() -> None:
    assert Budget(10, 5.0).less(3, 2.0) == Budget(7, 3.0)


def test_candidates_that_promise_nothing_are_not_prepared() -> None:
    assert choose(("go east",), ()) is None
    assert choose(("glide east", "glide east", "glide east", "pull lever")) is None, (
        "promises, and keeps nothing"
    )
