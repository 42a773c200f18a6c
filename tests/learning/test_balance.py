"""Micro-batches of several ranks: every sample once, within the budget, evenly loaded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actfirst.learning.balance import balanced_steps
from actfirst.learning.packing import input_length
from actfirst.records import TurnSample
from tests.learning.making import make_samples


def sample(length: int, name: str = "") -> TurnSample:
    """Computes exactly `length` tokens."""
    return TurnSample(
        id=name or f"of {length}",
        episode_id="e",
        task_id="t",
        turn=1,
        prompt_ids=(1,) * length,
        token_ids=(2,),
        mask=(1,),
        behaviour_logprobs=(-1.0,),
        advantages=(0.5,),
        version=0,
    )


def lengths(steps: list[list[list[TurnSample]]]) -> list[list[list[int]]]:
    return [[[input_length(member) for member in batch] for batch in step] for step in steps]


def test_the_longest_goes_first_to_whoever_has_least() -> None:
    steps = balanced_steps([sample(n) for n in (2, 7, 3, 6)], token_budget=10, ranks=2)
    assert lengths(steps) == [[[7, 2], [6, 3]]]


def test_more_steps_when_the_budget_is_small() -> None:
    steps = balanced_steps([sample(n) for n in (6, 6, 6, 2)], token_budget=8, ranks=2)
    assert lengths(steps) == [[[6], [6]], [[6], [2]]]


def test_a_sample_beyond_the_budget_is_alone_and_a_rank_may_have_nothing() -> None:
    assert lengths(balanced_steps([sample(30)], token_budget=8, ranks=2)) == [[[30], []]]
    assert balanced_steps([], 8, 2) == []


@settings(deadline=None)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(20, 200), st.integers(0, 5))
def test_every_sample_once_and_every_rank_in_every_step(count: int, ranks: int, budget: int, seed: int) -> None:
    samples = make_samples(count, seed=seed)
    steps = balanced_steps(samples, budget, ranks)
    assert all(len(step) == ranks for step in steps)
    placed = [member.id for step in steps for batch in step for member in batch]
    assert sorted(placed) == sorted(s.id for s in samples)
    for step in steps:
        for batch in step:
            assert len(batch) <= 1 or sum(map(input_length, batch)) <= budget


@pytest.mark.parametrize("ranks", [2, 4])
def test_loads_differ_by_less_than_the_longest_sample(ranks: int) -> None:
    samples = make_samples(64, seed=1)
    ((*batches,),) = balanced_steps(samples, 10_000, ranks)
    loads = [sum(map(input_length, batch)) for batch in batches]
    assert max(loads) - min(loads) < max(map(input_length, samples))
