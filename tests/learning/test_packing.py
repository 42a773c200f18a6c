"""Micro-batches and their layout."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from actfirst.learning.loss import LossConfig
from actfirst.learning.packing import input_length, lay_out, micro_batches
from actfirst.records import TurnSample
from tests.learning.making import make_episodes, make_samples

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
    samples = [sample((n, *range(n - 1)), (1,)) for n in lengths]
    layout = lay_out(samples, len(samples), LOSS)
    assert layout.groups == ((3, 100), (2, 30), (1, 5))


def test_queries_begin_where_a_sequence_leaves_what_it_shares() -> None:
    """Two turns of one episode: the second asks for its own end alone, and sees everything before it."""
    first, second = sample(tuple(range(80)), (1, 1)), sample((*range(70), 95, 96, 97), (2, 2))
    layout = lay_out([first, second], 2, LOSS)
    assert layout.groups == ((1, 81), (1, 74))
    assert layout.rows.starts == (0, 70)
    assert layout.supervised.starts == (79, 72)
    assert len(layout.token_U) == len(layout.rows.item_Q) == 81 + 4
    assert len(layout.row_P) == 81 + 74


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 50), st.booleans())
def test_every_place_shows_the_token_that_its_sequence_has_there(
    tasks: int, turns: int, seed: int, grows: bool
) -> None:
    samples = make_episodes(tasks, turns, seed=seed) if grows else make_samples(tasks * turns, seed=seed)
    layout = lay_out(samples, len(samples), LOSS)
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
    assert seen == len(samples)
    # Every row asks once, every supervised token asks, and what is asked for is what stands at its place.
    for queries, count in ((layout.rows, len(layout.token_U)), (layout.supervised, len(layout.row_N))):
        assert queries.item_Q[queries.place].tolist() == list(range(count))
        asked = [(length - first) * rows for (rows, length), first in zip(layout.groups, queries.starts)]
        assert sum(asked) == len(queries.item_Q)


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 4), st.integers(1, 6), st.integers(0, 50))
def test_a_query_stands_at_its_own_position_of_a_sequence_that_holds_it(
    tasks: int, turns: int, seed: int
) -> None:
    layout = lay_out(make_episodes(tasks, turns, seed=seed), 1, LOSS)
    for queries, rows in ((layout.rows, torch.arange(len(layout.token_U))), (layout.supervised, layout.row_N)):
        keys, asked, at = 0, 0, {}
        for (count, length), first in zip(layout.groups, queries.starts):
            for _ in range(count):
                for position in range(first, length):
                    at[asked] = (int(layout.row_P[keys + position]), position)
                    asked += 1
                keys += length
        for place, row in zip(queries.place.tolist(), rows.tolist()):
            assert at[place] == (row, int(layout.position_U[row]))


def test_samples_that_begin_alike_share_a_micro_batch() -> None:
    """Far fewer tokens are computed than by falling length in as many micro-batches."""
    samples = make_episodes(8, 6, seed=3)
    batches = micro_batches(samples, sum(map(input_length, samples)) // 8)
    by_length = sorted(samples, key=input_length, reverse=True)
    size = -(-len(by_length) // len(batches))
    mixed = [by_length[first : first + size] for first in range(0, len(by_length), size)]

    def computed(parts: list[list[TurnSample]]) -> int:
        return sum(len(lay_out(part, len(samples), LOSS).token_U) for part in parts)

    assert 3 * computed(batches) < 2 * computed(mixed)
    episodes = [{s.prompt_ids[:8] for s in batch} for batch in batches]
    assert sum(map(len, episodes)) <= 8 + len(batches) - 1
