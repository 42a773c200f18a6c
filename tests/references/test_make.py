"""From candidates to a reference (paper, appendix "Reference Trajectories")."""

from __future__ import annotations

from dataclasses import replace

import pytest

from actfirst.environments.base import World
from actfirst.environments.registry import find_kind
from actfirst.environments.solving import Budget, Care
from actfirst.errors import EnvironmentFailure
from actfirst.records import Observation, Task
from actfirst.references.build.make import Job, Maker
from actfirst.references.build.replay import replay
from actfirst.references.store import Attempt
from tests.references.worlds import WEATHER, BreakingWorld, WeatherWorld, Written, tasks
from tests.support.toy_world import CORRIDOR, CorridorEnvironment, CorridorWorld

ROOMS3 = tasks()[1]
SHORT = ("go east", "go east", "pull lever")
LONG = ("go east", "go west", "go east", "go east", "pull lever")


def attempt(
    *lists: tuple[str, ...],
    world: World | None = None,
    care: Care | None = None,
    before: Attempt | None = None,
    key: str = "written",
) -> Attempt:
    kind = WEATHER if isinstance(world, WeatherWorld) else CORRIDOR
    return Maker(kind, world or CorridorWorld(), [Written(lists, key)], care or Care()).work(
        Job(ROOMS3, before)
    )


def actions(made: Attempt) -> tuple[str, ...]:
    assert made.reference is not None
    return tuple(step.action for step in made.reference.steps)


def test_of_successful_candidates_the_shorter_one_is_kept() -> None:
    made = attempt(LONG, SHORT, ("go east",))
    assert actions(made) == SHORT
    assert (made.candidates, made.tried, made.reason) == (3, ("written",), "")
    assert made.reference is not None
    assert made.reference.reliable


def test_what_is_kept_is_what_the_environment_showed() -> None:
    expected = replay(CorridorEnvironment(), ROOMS3, SHORT, "written")
    assert attempt(SHORT).reference == expected


def test_invalid_actions_and_everything_after_the_end_are_left_out() -> None:
    made = attempt(("sing", "go east", "hop east", "GO  EAST", "dance", "pull lever", "go west"))
    assert actions(made) == SHORT, "hop east is never listed, so a guided rollout could not take it"


def test_candidates_that_come_to_nothing_are_a_reason() -> None:
    made = attempt(("go east",), ())
    assert (made.reference, made.reason, made.tried) == (None, "no candidate scores", ("written",))
    assert attempt().reason == "no source has a candidate"


def test_a_source_that_refuses_is_a_reason_and_does_not_stop_the_others() -> None:
    class Refusing(Written):
        def candidates(self, task: Task, instruction: str):  # type: ignore[no-untyped-def]
            raise EnvironmentFailure("no gold path here")

    refusing = Refusing((), "gold")
    alone = Maker(CORRIDOR, CorridorWorld(), [refusing], Care()).work(Job(ROOMS3))
    assert (alone.reason, alone.tried) == ("gold: no gold path here", ("gold",))
    helped = Maker(CORRIDOR, CorridorWorld(), [refusing, Written((SHORT,))], Care()).work(Job(ROOMS3))
    assert actions(helped) == SHORT


def test_candidates_are_shortened_while_they_succeed_where_that_is_asked_for() -> None:
    made = attempt(LONG, care=Care(shorten=Budget()))
    assert actions(made) == SHORT
    assert made.cut == 2


def test_an_earlier_reference_competes_and_its_sources_are_not_asked_again() -> None:
    first = attempt(LONG)
    same = attempt(SHORT, before=first)
    assert actions(same) == LONG, "the source has the same key: it is not asked"
    better = attempt(SHORT, before=first, key="other")
    assert actions(better) == SHORT
    assert better.tried == ("written", "other")
    assert actions(attempt(LONG, before=better, key="third")) == SHORT


def test_replays_are_repeated_where_the_world_calls_a_task_random() -> None:
    """Candidate: episode 2, its replays: 3 to 6; it rains in the even ones, so 3 of 5 agree whichever is kept."""
    made = attempt(SHORT, world=WeatherWorld(every=2), care=Care(random_replays=5))
    assert made.reference is not None
    assert not made.reference.reliable
    assert (made.replays, made.agreed) == (5, 3)


def test_of_differing_replays_the_one_most_others_agree_with_is_kept() -> None:
    """The candidate is tried in episode 2; replays follow in 3 to 7. It rains in episode 2 (every second one), or in
    episode 6 (every sixth one)."""
    wet = attempt(SHORT, world=WeatherWorld(every=2), care=Care(random_replays=4))
    assert (wet.agreed, wet.replays) == (2, 4)
    dry = attempt(SHORT, world=WeatherWorld(every=6), care=Care(random_replays=6))
    assert (dry.agreed, dry.replays) == (5, 6)
    assert dry.reference is not None
    assert "rains" not in dry.reference.steps[1].observation.text


def test_a_random_task_whose_replays_agree_is_reliable() -> None:
    made = attempt(SHORT, world=WeatherWorld(every=100))
    assert made.reference is not None
    assert made.reference.reliable
    assert (made.replays, made.agreed) == (5, 5)


def test_an_environment_that_fails_once_is_replaced() -> None:
    assert actions(attempt(SHORT, world=BreakingWorld(faults=[True]))) == SHORT


def test_an_environment_that_keeps_failing_is_a_reason_and_leaves_the_source_untried() -> None:
    made = attempt(SHORT, world=BreakingWorld(faults=[True, True]))
    assert (made.reason, made.tried, made.reference) == ("failed: the simulator died", (), None)


def test_a_reference_survives_a_later_attempt_that_fails() -> None:
    first = attempt(LONG)
    assert attempt(SHORT, world=BreakingWorld(faults=[True] * 9), before=first, key="other") is first


@pytest.mark.parametrize(
    ("name", "written", "listed"),
    [
        ("alfworld", "put mug 1 in/on desk 2", "move mug 1 to desk 2"),
        ("alfworld", "Go to desk 2.", "go to desk 2"),
        ("webshop", "click [ Buy Now ]", "click[buy now]"),
        ("webshop", "search[red Shoes] and look", "search[red Shoes]"),
    ],
)
def test_other_wordings_of_public_demonstrations(name: str, written: str, listed: str) -> None:
    assert listed in list(find_kind(name).sources.rewrite(written, Observation("", (listed,))))


def test_a_scienceworld_reference_keeps_what_its_check_compares() -> None:
    """Appendix "Transition Consistency Checks": the full admissible list and the objects are never compared."""
    kind = replace(CORRIDOR, sources=replace(find_kind("scienceworld").sources, rehearse=None))
    bare = Maker(kind, CorridorWorld(), [Written((SHORT,))], Care()).work(Job(ROOMS3)).reference
    assert bare is not None
    assert bare.initial.admissible == ()
    assert all(step.observation.admissible == () and step.observation.text for step in bare.steps)
    assert [step.action for step in bare.steps] == list(SHORT)


def test_a_candidate_ends_where_its_best_score_was_reached() -> None:
    class Scored(CorridorEnvironment):
        """Half the score for the second room; the episode never ends."""

        def _observe(self, text: str) -> Observation:
            self.best = max(getattr(self, "best", 0.0), 50.0 if self.place == 1 else 0.0)
            return Observation(text, self._actions(), score=self.best)

    class ScoredWorld(CorridorWorld):
        def open(self) -> CorridorEnvironment:
            return Scored()

    made = Maker(CORRIDOR, ScoredWorld(), [Written((("go east", "go east", "go west"),))], Care()).work(
        Job(ROOMS3)
    )
    assert actions(made) == ("go east",)
    assert made.reference is not None
    assert made.reference.score == 50.0
