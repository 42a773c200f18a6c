"""The FIFO buffer, the version rule and the ledger (paper, "OPD Optimization")."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actfirst.errors import LedgerError
from actfirst.records import TurnSample
from actfirst.rollout.buffer import Ledger, SampleBuffer


def sample(name: str, version: int) -> TurnSample:
    return TurnSample(name, "e", "t", 1, (1,), (2,), (1,), (-1.0,), (-0.5,), version)


def test_the_oldest_samples_go_first_and_the_rest_stays() -> None:
    buffer = SampleBuffer(max_lag=1)
    buffer.add([sample(str(n), 0) for n in range(5)], {})
    taken = buffer.take(3, version=0)
    assert taken is not None
    assert [s.id for s in taken] == ["0", "1", "2"]
    assert [s.id for s in buffer.samples] == ["3", "4"]
    assert buffer.take(3, version=1) is None


def test_the_current_and_the_preceding_version_are_used_and_older_ones_discarded() -> None:
    buffer = SampleBuffer(max_lag=1)
    buffer.add([sample("old", 3), sample("previous", 4), sample("current", 5)], {})
    taken = buffer.take(2, version=5)
    assert taken is not None
    assert [s.id for s in taken] == ["previous", "current"]
    assert buffer.ledger.discarded == {"stale": 1}


def test_reasons_of_a_batch_enter_the_ledger() -> None:
    buffer = SampleBuffer(max_lag=1)
    buffer.add([sample("a", 0)], {"not scored": 2})
    assert buffer.ledger.counts(len(buffer)).to_json() == {
        "generated": 3,
        "trained": 0,
        "discarded": {"not scored": 2},
        "buffered": 1,
        "generated_tokens": 0,
        "trained_tokens": 0,
    }


def test_a_lost_sample_is_an_error() -> None:
    with pytest.raises(LedgerError, match="3 responses were generated but 2 are accounted for"):
        Ledger(generated=3, trained=1).check(buffered=1)


def test_a_ledger_survives_storage() -> None:
    ledger = Ledger(7, 3)
    ledger.discarded["stale"] = 2
    again = Ledger.of(ledger.counts(2))
    assert again == ledger


events = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 9), st.integers(0, 2)),
        st.tuples(st.just("update"), st.integers(1, 6), st.just(0)),
    ),
    max_size=30,
)


@given(events, st.integers(0, 2))
def test_generated_is_trained_plus_discarded_plus_buffered_and_nothing_is_trained_twice(
    events: list[tuple[str, int, int]], max_lag: int
) -> None:
    buffer = SampleBuffer(max_lag)
    version, made, trained = 0, 0, list[str]()
    for kind, count, lost in events:
        if kind == "add":
            buffer.add([sample(str(made + n), version) for n in range(count)], {"not scored": lost})
            made += count
        elif (taken := buffer.take(count, version)) is not None:
            assert all(version - s.version <= max_lag for s in taken)
            trained += [s.id for s in taken]
            version += 1
        buffer.ledger.check(len(buffer))
    assert len(trained) == len(set(trained)) == buffer.ledger.trained


def test_tokens_are_counted_when_generated_and_when_trained_on() -> None:
    buffer = SampleBuffer(max_lag=1)
    made = [sample("a", 0), sample("b", 0)]
    each = len(made[0].token_ids)
    buffer.add(made, {"not scored": 1}, tokens=3 * each)
    assert buffer.take(1, version=0) is not None
    stored = buffer.ledger.counts(len(buffer))
    assert (stored.generated_tokens, stored.trained_tokens) == (3 * each, each)
    assert Ledger.of(stored) == buffer.ledger


@pytest.mark.parametrize(
    ("held", "arrived", "left"),
    [
        ([0], [0], 2),  # no update yet: both wait
        ([0], [0, 0, 0], 0),  # an update of three leaves one, which is too old for the next version
        ([], [0, 1, 1, 1], 1),
        ([0, 0], [1, 1, 1, 1], 3),  # the older ones go first
    ],
)
def test_what_will_be_left_for_the_next_batch(held: list[int], arrived: list[int], left: int) -> None:
    """Updates of three at version 1, a lag of one."""
    buffer = SampleBuffer(max_lag=1, samples=[sample(f"h{n}", version) for n, version in enumerate(held)])
    new = [sample(f"a{n}", version) for n, version in enumerate(arrived)]
    assert buffer.outlook(new, 3, version=1, updates=9) == left
    assert len(buffer) == len(held)


def test_no_further_batch_for_the_last_update() -> None:
    new = [sample(str(n), 8) for n in range(4)]
    assert SampleBuffer(max_lag=1).outlook(new, 3, version=8, updates=9) is None
    assert SampleBuffer(max_lag=1).outlook(new, 5, version=8, updates=9) == 4


def test_an_update_of_whole_batches_takes_everything_once_there_is_enough_for_a_step() -> None:
    buffer = SampleBuffer(max_lag=0, whole=True)
    buffer.add([sample("a", 0)], {"equal rewards in its group": 2})
    assert buffer.take(2, version=0) is None
    buffer.add([sample("b", 0), sample("c", 0)], {})
    assert buffer.outlook((), 2, version=0, updates=9) == 0
    taken = buffer.take(2, version=0)
    assert taken is not None
    assert [s.id for s in taken] == ["a", "b", "c"]
    assert len(buffer) == 0
