"""The latency profile of turns, on hand-made ones."""

from __future__ import annotations

from actfirst.lab.latency import profile, reasoning_share
from actfirst.lab.spread import Percentiles
from actfirst.runs.episodes import ResponseLine, TurnLine
from tests.support.episode_lines import response, turn

TEXT = "<think>it is dark</think><action>look 1</action>"


def line(**fields: object) -> TurnLine:
    return TurnLine.model_validate(turn(1, **fields))


def test_the_share_of_reasoning_is_one_of_tokens() -> None:
    def share(tokens: int, reasoning: int | None) -> float | None:
        return reasoning_share(ResponseLine.model_validate(response(TEXT, tokens, reasoning)))

    assert share(96, 72) == 0.75
    assert share(96, 0) == 0.0
    assert share(96, 96) == 1.0
    assert share(96, None) is None  # written by a version that did not count them
    assert share(0, 0) is None


def test_percentiles_lie_between_neighbours() -> None:
    # 0, 10, ..., 100: the fifth percentile lies half-way between the first two
    assert Percentiles.of([10.0 * value for value in range(11)]) == Percentiles(50.0, 5.0, 95.0)
    assert Percentiles.of([3.0]) == Percentiles(3.0, 3.0, 3.0)


def test_a_profile_of_turns_with_and_without_reasoning() -> None:
    found = profile([line(seconds=1.0, response=response(TEXT, 96, 72)), line(seconds=3.0)])
    assert found is not None
    assert (found.turns, found.seconds.mean) == (2, 2.0)
    assert found.reasoning is not None
    assert found.reasoning.mean == 75.0


def test_turns_that_only_act_have_no_share_of_reasoning() -> None:
    found = profile([line()])
    assert found is not None
    assert found.reasoning is None
    assert profile([]) is None
