"""Samples at the learner's door: what makes one unusable, and their compact form on disk.

The file is an npz of flattened arrays (all token ids in one row, lengths beside them) plus one JSON text of
identifiers. The round trip is exact: numbers are stored in the smallest type that holds every one of them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from actfirst.errors import CheckpointError, UpdateError
from actfirst.reading import parse_json
from actfirst.records import Alternatives, TurnSample

Array: TypeAlias = NDArray[Any]


def check_samples(samples: Sequence[TurnSample], vocabulary: int, *, anchored: bool = False) -> None:
    """Raise UpdateError, naming every sample that cannot be trained on and why. `anchored`: each needs an anchor."""
    if not samples:
        raise UpdateError("an update needs at least one sample, and got none")
    faults = [
        (sample.id, fault) for sample in samples if (fault := _fault(sample, vocabulary, anchored)) is not None
    ]
    if faults:
        listed = "; ".join(f"{name}: {fault}" for name, fault in faults[:5])
        more = f"; and {len(faults) - 5} more" if len(faults) > 5 else ""
        raise UpdateError(f"{len(faults)} of {len(samples)} samples cannot be trained on ({listed}{more})")


def _fault(sample: TurnSample, vocabulary: int, anchored: bool) -> str | None:
    if not sample.prompt_ids:
        return "the prompt is empty"
    if not _equally_long(sample):
        return "the streams of the response differ in length"
    if not set(sample.mask) <= {0, 1}:
        return "the mask holds something else than 0 and 1"
    ids = sample.prompt_ids + sample.token_ids
    if min(ids) < 0 or max(ids) >= vocabulary:
        return f"a token id lies outside the vocabulary of {vocabulary}"
    if not math.isfinite(sample.weight):
        return "the weight is not finite"
    if anchored and not sample.anchor_logprobs:
        return "learner.kl_weight is not 0, but there are no log-probs of the anchor"
    for name, stream in (
        ("behaviour log-prob", sample.behaviour_logprobs),
        ("advantage", sample.advantages),
        ("anchor log-prob", sample.anchor_logprobs),
    ):
        if not all(math.isfinite(value) for value, kept in zip(stream, sample.mask) if kept):
            return f"the {name} of a supervised token is not finite"
    return None


def _equally_long(sample: TurnSample) -> bool:
    streams = [sample.mask, sample.behaviour_logprobs, sample.advantages]
    if sample.anchor_logprobs:
        streams.append(sample.anchor_logprobs)
    return all(len(stream) == len(sample.token_ids) for stream in streams)


def save_samples(path: Path, samples: Sequence[TurnSample]) -> None:
    """Write samples in order; `load_samples` gives equal ones back."""
    for sample in samples:
        if not _equally_long(sample):
            raise CheckpointError(f"sample {sample.id} cannot be stored: its streams differ in length")
    names = json.dumps([[s.id, s.episode_id, s.task_id] for s in samples])
    arrays = {
        "names": np.frombuffer(names.encode(), dtype=np.uint8),
        "prompt_length": _integers(len(s.prompt_ids) for s in samples),
        "length": _integers(len(s.token_ids) for s in samples),
    }
    if any(s.anchor_logprobs for s in samples):
        arrays["anchor_length"] = _integers(len(s.anchor_logprobs) for s in samples)
        arrays["anchor_logprobs"] = _floats(value for s in samples for value in s.anchor_logprobs)
    if any(s.alternatives.token_ids for s in samples):
        arrays["alternatives_length"] = _integers(len(s.alternatives.token_ids) for s in samples)
        arrays["alternative_ids"] = _integers(i for s in samples for i in s.alternatives.token_ids)
        arrays["alternative_logprobs"] = _floats(value for s in samples for value in s.alternatives.logprobs)
    for field, pack in _NUMBERS.items():
        arrays[field] = pack(getattr(s, field) for s in samples)
    for field, pack in _STREAMS.items():
        arrays[field] = pack(value for s in samples for value in getattr(s, field))
    with path.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


def load_samples(path: Path) -> tuple[TurnSample, ...]:
    """The samples that `save_samples` wrote."""
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        return tuple(_samples(arrays))
    except Exception as error:  # numpy and zipfile have no common type for a broken file
        raise CheckpointError(f"{path} is not a readable file of samples ({error})") from error


def _samples(arrays: dict[str, Array]) -> Iterator[TurnSample]:
    prompt_end = np.cumsum(arrays["prompt_length"], dtype=np.int64)
    end = np.cumsum(arrays["length"], dtype=np.int64)
    anchors, others = _slices(arrays.get("anchor_length")), _slices(arrays.get("alternatives_length"))
    for row, (name, episode, task) in enumerate(parse_json(arrays["names"].tobytes())):
        prompt = slice(int(prompt_end[row] - arrays["prompt_length"][row]), int(prompt_end[row]))
        response = slice(int(end[row] - arrays["length"][row]), int(end[row]))
        values: dict[str, Any] = {field: arrays[field][row].item() for field in _NUMBERS}
        for field in _STREAMS:
            values[field] = tuple(arrays[field][prompt if field == "prompt_ids" else response].tolist())
        if anchors:
            values["anchor_logprobs"] = tuple(arrays["anchor_logprobs"][anchors[row]].tolist())
        if others:
            streams = (
                arrays[name][others[row]].tolist() for name in ("alternative_ids", "alternative_logprobs")
            )
            values["alternatives"] = Alternatives(*map(tuple, streams))
        yield TurnSample(id=name, episode_id=episode, task_id=task, **values)


def _slices(lengths: Array | None) -> list[slice]:
    """Where the values of each sample stand in a stream; none where the file has no such stream."""
    if lengths is None:
        return []
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    return [slice(end - length, end) for end, length in zip(ends, lengths.tolist(), strict=True)]


def _integers(values: Iterable[int]) -> Array:
    wide = np.fromiter(values, dtype=np.int64)
    for narrow in (np.uint8, np.uint16, np.int32):
        info = np.iinfo(narrow)
        if wide.size == 0 or (wide.min() >= info.min and wide.max() <= info.max):
            return wide.astype(narrow)
    return wide


def _floats(values: Iterable[float]) -> Array:
    wide = np.fromiter(values, dtype=np.float64)
    with np.errstate(over="ignore"):
        narrow = wide.astype(np.float32)
    return narrow if np.array_equal(narrow.astype(np.float64), wide) else wide


_NUMBERS = {"turn": _integers, "version": _integers, "weight": _floats}
_STREAMS = {
    "prompt_ids": _integers,
    "token_ids": _integers,
    "mask": _integers,
    "behaviour_logprobs": _floats,
    "advantages": _floats,
}
