"""Micro-batches and their layout."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actfirst.learning.loss import LossConfig
from actfirst.learning.packing import lay_out, micro_batches
from actfirst.records import TurnSample
from tests.learning.making import make_samples

LOSS = LossConfig()


def sample(prompt: tuple[int, ...], tokens: tuple[int, ...], mask: tuple[int, ...] | None = None) -> TurnSample:
    zeros = (0.0,) * len(tokens)
    return TurnSample("s", "e", "t", 1, prompt, tokens, mask or (1,) * len(tokens), zeros, zeros, 0)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 200), st.integers(1, 30), st.integers(0, 5))
def test_no_micro_batch_exceeds_the_budget_and_none_loses_a_sample(budget: int, count: int, seed: int) -> None:
    samples = make_samples(count, seed=seed)
    batches = micro_batches(samples, budget)
    assert sorted(s.id for batch in batches for s in batch) == sorted(s.id for s in samples)
    for batch in batches:
        assert len(batch) == 1 or sum(len(s.prompt_ids) + len(s.token_ids) - 1 for s in batch) <= budget


def test_a_response_without_supervised_tokens_is_not_computed() -> None:
    assert micro_batches([sample((1,), (2, 3), (0, 0))], 10) == []


def test_a_shared_prefix_is_stored_once_and_padding_is_stored_never() -> None:
    layout = lay_out([sample((5, 6, 7), (1, 2)), sample((5, 6), (9,)), sample((5, 6, 7), (1, 3))], 3, LOSS)
    # Inputs: 5 6 7 1, 5 6 and 5 6 7 1 (no sequence needs its last token): four rows serve all of them.
    assert layout.token_U.tolist() == [5, 6, 7, 1]
    assert layout.position_U.tolist() == [0, 1, 2, 3]
    assert sorted(layout.target_N.tolist()) == [1, 1, 2, 3, 9]
    asked = sorted(zip(layout.row_N.tolist(), layout.target_N.tolist()))
    assert asked == [(1, 9), (2, 1), (2, 1), (3, 2), (3, 3)]


def test_nothing_after_the_last_supervised_token_is_computed() -> None:
    layout = lay_out([sample((5, 6), (1, 2, 3, 4), (1, 1, 0, 0))], 1, LOSS)
    assert layout.token_U.tolist() == [5, 6, 1]
    assert layout.target_N.tolist() == [1, 2]


def test_only_supervised_tokens_count_in_the_normaliser() -> None:
    layout = lay_out([replace(sample((5,), (1, 2, 3, 4), (1, 0, 0, 1)), weight=3.0)], 10, LOSS)
    assert layout.share_N.tolist() == pytest.approx([3 / 20, 3 / 20])


def test_short_and_long_sequences_do_not_pad_each_other() -> None:
    lengths = (100, 99, 90, 30, 29, 5)
    samples = [sample(tuple(range(n)), (1,)) for n in lengths]
    layout = lay_out(samples, len(samples), LOSS)
    assert layout.groups == ((3, 100), (2, 30), (1, 5))


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 12), st.integers(0, 50))
def test_every_place_shows_the_token_that_its_sequence_has_there(count: int, seed: int) -> None:
    samples = make_samples(count, seed=seed)
    layout = lay_out(samples, count, LOSS)
    sequences = {s.prompt_ids + s.token_ids for s in samples}
    start, seen = 0, 0
    for rows, length in layout.groups:
        for _ in range(rows):
            places = layout.row_P[start : start + length]
            tokens = tuple(layout.token_U[places].tolist())
            positions = layout.position_U[places].tolist()
            real = next(n for n in range(length, 0, -1) if positions[:n] == list(range(n)))
            assert any(ids[:real] == tokens[:real] for ids in sequences)
            start, seen = start + length, seen + 1
    assert seen == count
    # One place of every row is that row's, and the row asked for a target is the one at its place.
    assert layout.row_P[layout.place_U].tolist() == list(range(len(layout.token_U)))
    assert layout.row_P[layout.place_N].tolist() == layout.row_N.tolist()
