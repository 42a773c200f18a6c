"""Samples on disk: an exact round trip in little space."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actfirst.errors import CheckpointError
from actfirst.learning.samples import load_samples, save_samples
from actfirst.reading import clean
from actfirst.records import Alternatives, TurnSample
from tests.learning.making import make_samples

TEXT = st.text(max_size=8).map(clean)
ID = st.integers(0, 200_000)
LOGPROB = st.floats(max_value=0.0, allow_nan=False)
ADVANTAGE = st.floats(allow_nan=False)


@st.composite
def turn_samples(draw: st.DrawFn) -> TurnSample:
    length = draw(st.integers(0, 6))

    def stream(values: st.SearchStrategy[object]) -> tuple[object, ...]:
        return tuple(draw(st.lists(values, min_size=length, max_size=length)))

    return TurnSample(
        id=draw(TEXT),
        episode_id=draw(TEXT),
        task_id=draw(TEXT),
        turn=draw(st.integers(1, 400)),
        prompt_ids=tuple(draw(st.lists(ID, max_size=6))),
        token_ids=stream(ID),  # type: ignore[arg-type]
        mask=stream(st.integers(0, 1)),  # type: ignore[arg-type]
        behaviour_logprobs=stream(LOGPROB),  # type: ignore[arg-type]
        advantages=stream(ADVANTAGE),  # type: ignore[arg-type]
        version=draw(st.integers(0, 2**40)),
        weight=draw(st.floats(0.0, 10.0)),
        anchor_logprobs=stream(LOGPROB) if draw(st.booleans()) else (),  # type: ignore[arg-type]
        alternatives=Alternatives(stream(ID), stream(LOGPROB)) if draw(st.booleans()) else Alternatives(),  # type: ignore[arg-type]
    )


@settings(deadline=None, max_examples=40)
@given(st.lists(turn_samples(), max_size=5))
def test_what_is_loaded_equals_what_was_saved(samples: list[TurnSample]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "samples.npz"
        save_samples(path, samples)
        assert load_samples(path) == tuple(samples)


def test_loaded_values_are_plain_python_numbers(tmp_path: Path) -> None:
    save_samples(tmp_path / "samples.npz", make_samples(1))
    (sample,) = load_samples(tmp_path / "samples.npz")
    values = (sample.token_ids[0], sample.mask[0], sample.behaviour_logprobs[0], sample.weight, sample.version)
    assert [type(value) for value in values] == [int, int, float, float, int]


def test_a_buffer_takes_little_space(tmp_path: Path) -> None:
    long = TurnSample(
        "s", "e", "t", 1, (300,) * 10_000, (7,) * 500, (1,) * 500, (-1.5,) * 500, (-0.5,) * 500, 3
    )
    save_samples(tmp_path / "samples.npz", [long] * 100)
    size = (tmp_path / "samples.npz").stat().st_size
    assert size < 100 * (10_000 * 2 + 500 * (2 + 1 + 4 + 4)) + 5_000  # bytes per token: ids 2, mask 1, floats 4


def test_streams_of_unequal_length_are_refused(tmp_path: Path) -> None:
    bad = TurnSample("the-bad-one", "e", "t", 1, (1,), (1, 2), (1,), (0.0, 0.0), (0.0, 0.0), 0)
    with pytest.raises(CheckpointError, match="the-bad-one"):
        save_samples(tmp_path / "samples.npz", [bad])


@pytest.mark.parametrize("content", [b"", b"not a zip file", b"PK\x03\x04 cut short"])
def test_an_unreadable_file_is_named(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "samples.npz"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"samples\.npz is not a readable file"):
        load_samples(path)
