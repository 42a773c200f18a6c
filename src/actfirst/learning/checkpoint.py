"""Crash-safe checkpoints: after a kill at any moment, every checkpoint that can be seen is whole.

    <folder>/step-000012/
        model/      a Hugging Face folder for `from_pretrained`: config, tokenizer files, model.safetensors
        average/    the same with averaged weights, where they are kept (`learner.average`)
        bfloat16/   the same in bfloat16, averaged where that is kept, where `checkpoint.export` asks for it
        training/   optimizer.safetensors, samples.npz (the buffer), rng.json, state.json (the caller's state);
                    adapters.safetensors where adapters are trained; where a learner of several ranks wrote it,
                    shards/ in place of optimizer.safetensors (see `sharded_checkpoint.py`)
        manifest.json

What it will hold is taken first (`take`), which may be a copy, so that `write` can go on beside the next update. It is
written under another name in the same folder, brought to the disk, sealed with its manifest and renamed. The weights
are the float32 master weights, so a resumed run continues bit by bit. Reading one runs no code of its files: tensors
are safetensors, samples arrays, all else JSON; nothing is unpickled.
"""

from __future__ import annotations

import errno
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from actfirst.errors import CheckpointError
from actfirst.learning.rng import capture_rng
from actfirst.learning.samples import load_samples, save_samples
from actfirst.learning.shards import whole_tensors
from actfirst.learning.update import Learner, LearnerState
from actfirst.models.adapters import write_adapter
from actfirst.reading import Unreadable, read_object
from actfirst.records import TurnSample
from actfirst.runs.files import sync_folder
from actfirst.runs.manifest import (
    AVERAGED,
    EXPORTED,
    MODEL,
    complete_steps,
    seal,
    step_name,
    step_of,
    steps,
    verify,
)

_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
OPTIMIZER, SHARDS = "optimizer.safetensors", "shards"
_WEIGHTS, _ADAPTERS = "model.safetensors", "adapters.safetensors"
_UNFINISHED = (".writing-", ".removing-")
# What a model folder holds beside weights: config, generation config, tokenizer, chat template.
_COPIED = (".json", ".jinja", ".txt", ".model")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A checkpoint that is as it was written. `rng` goes to `restore_rng`, `learner` to `Learner.restore`."""

    path: Path
    step: int
    samples: tuple[TurnSample, ...]
    trainer_state: Mapping[str, Any]
    rng: dict[str, Any]

    @property
    def model(self) -> Path:
        """The model as a Hugging Face folder, with the weights that training goes on from."""
        return self.path / MODEL

    @property
    def learner(self) -> LearnerState:
        """Weights and optimiser, read when they are asked for: they are by far the largest part."""
        training, shards = self.path / "training", self.path / "training" / SHARDS
        optimizer = whole_tensors(shards) if shards.is_dir() else load_file(training / OPTIMIZER)
        return replace(self.without_optimizer, optimizer=optimizer)

    @property
    def without_optimizer(self) -> LearnerState:
        """The weights alone."""
        adapters = self.path / "training" / _ADAPTERS
        return LearnerState(
            version=self.step,
            weights=load_file(self.model / _WEIGHTS),
            optimizer={},
            adapters=load_file(adapters) if adapters.is_file() else {},
        )


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest valid checkpoint, and why newer ones were passed over."""

    checkpoint: Checkpoint | None
    rejected: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """Everything that a checkpoint will hold, at one moment of a run. `source` is the folder of the student."""

    source: Path
    state: LearnerState
    average: Mapping[str, Tensor]
    samples: Sequence[TurnSample]
    trainer_state: Mapping[str, object]
    rng: Mapping[str, Any]
    adapter_alpha: float


def take(
    learner: Learner, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], *, copy: bool
) -> Taken:
    """`samples` is the buffer and `trainer_state` anything JSON-able. Without `copy` the tensors share memory with the
    learner: they have to be written before its next update."""
    state, alpha = learner.state(), learner.settings.adapter_alpha
    average = learner.export(averaged=True) if learner.settings.average else {}
    if copy:
        average = copied(average)
        state = replace(
            state,
            weights=copied(state.weights),
            optimizer=copied(state.optimizer),
            adapters=copied(state.adapters),
        )
    return Taken(learner.source, state, average, samples, trainer_state, capture_rng(), alpha)


def copied(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The tensors in main memory of their own."""
    return {name: torch.empty_like(value, device="cpu").copy_(value) for name, value in tensors.items()}


def write(folder: Path, taken: Taken, *, export: bool = False) -> Path:
    """Write the checkpoint; an older one of the same step is replaced. When the disk is full, CheckpointError is raised
    and the checkpoints before it stay as they are."""
    state = taken.state
    tensors = (*state.weights.values(), *state.optimizer.values(), *taken.average.values())
    needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    with writing(folder, state.version, needed) as target:
        write_all_but_optimizer(target, taken, export=export)
        if state.adapters:
            adapters = _on_cpu(state.adapters)
            write_adapter(target / "adapter", str(taken.source), adapters, taken.adapter_alpha)
        save_file(_on_cpu(state.optimizer), target / "training" / OPTIMIZER)
    return folder / step_name(state.version)


def save(
    folder: Path, learner: Learner, samples: Sequence[TurnSample], trainer_state: Mapping[str, object]
) -> Path:
    """Take and write at once."""
    return write(folder, take(learner, samples, trainer_state, copy=False))


@contextmanager
def writing(folder: Path, version: int, needed: int) -> Iterator[Path]:
    """A folder to write a checkpoint into: whole and in its place when the block ends, gone when it fails.

    `needed` is about how many bytes it will have.
    """
    final = folder / step_name(version)
    target = folder / unfinished_name(version)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_unfinished(folder)
        target.mkdir()
        yield target
        seal(target)
        _put_in_place(target, final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(target, ignore_errors=True)
        raise _unwritable(final, needed, error) from error
    except BaseException:
        shutil.rmtree(target, ignore_errors=True)
        raise


def write_all_but_optimizer(folder: Path, taken: Taken, *, export: bool) -> None:
    """The model as it is trained, and the averaged one if there is one; with `export` also the one that evaluations
    take in bfloat16. Beside them adapters, and what a resumed run needs beside the learner's tensors."""
    training, state = folder / "training", taken.state
    training.mkdir(exist_ok=True)
    _write_model(folder / MODEL, taken.source, state.weights)
    if taken.average:
        _write_model(folder / AVERAGED, taken.source, taken.average)
    if export:
        weights = taken.average or state.weights
        half = {name: tensor.to(torch.bfloat16) for name, tensor in weights.items()}
        _write_model(folder / EXPORTED, taken.source, half, "bfloat16")
    if state.adapters:
        save_file(_on_cpu(state.adapters), training / _ADAPTERS)
    save_samples(training / "samples.npz", taken.samples)
    (training / "rng.json").write_text(json.dumps(taken.rng), encoding="utf-8")
    text = json.dumps({"version": state.version, "trainer": taken.trainer_state})
    (training / "state.json").write_text(text, encoding="utf-8")


def _write_model(model: Path, source: Path, weights: Mapping[str, Tensor], dtype: str = "float32") -> None:
    """A Hugging Face folder: what `source` holds beside weights, and these weights."""
    model.mkdir()
    for path in sorted(source.iterdir()):
        if path.suffix in _COPIED and path.is_file() and not path.name.endswith(".index.json"):
            shutil.copyfile(path, model / path.name)
    config = read_object(model / "config.json")
    config.pop("torch_dtype", None)
    config["dtype"] = dtype
    (model / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file(_on_cpu(weights), model / _WEIGHTS, metadata={"format": "pt"})


def unfinished_name(version: int) -> str:
    """The name under which a checkpoint is written."""
    return f".writing-{step_name(version)}"


def load(path: Path) -> Checkpoint:
    """Verify a checkpoint against its manifest and load it; CheckpointError names the file that is broken."""
    step = step_of(path)
    if step is None:
        raise CheckpointError(f"{path} is not a checkpoint: expected a folder named step-000012 or the like")
    verify(path)
    training = path / "training"
    try:
        state, rng = (read_object(training / name) for name in ("state.json", "rng.json"))
        trainer_state = state["trainer"]
    except (Unreadable, KeyError) as error:
        raise CheckpointError(f"checkpoint {path} has no readable training state: {error}") from error
    samples = load_samples(training / "samples.npz")
    return Checkpoint(path=path, step=step, samples=samples, trainer_state=trainer_state, rng=rng)


def latest_valid(folder: Path) -> Latest:
    """The newest checkpoint that loads; `rejected` says why newer ones were passed over."""
    rejected: list[str] = []
    for path in steps(folder):
        try:
            return Latest(load(path), tuple(rejected))
        except CheckpointError as error:
            rejected.append(str(error))
    return Latest(None, tuple(rejected))


def prune(folder: Path, keep: int, also: Set[int] = frozenset()) -> None:
    """Remove all complete checkpoints but the newest `keep` and those of the updates in `also`."""
    if keep < 1:
        raise ValueError("keep must be at least 1")
    for path in complete_steps(folder)[keep:]:
        if step_of(path) in also:
            continue
        shutil.rmtree(_set_aside(path))


def _on_cpu(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.cpu().contiguous() for name, tensor in tensors.items()}


def _put_in_place(writing: Path, final: Path) -> None:
    replaced = _set_aside(final) if final.exists() else None
    writing.rename(final)
    sync_folder(final.parent)
    if replaced is not None:
        shutil.rmtree(replaced)


def _set_aside(path: Path) -> Path:
    """Under a name that is no checkpoint's, so that a removal cut short leaves nothing that looks like one."""
    aside = path.with_name(f".removing-{path.name}")
    shutil.rmtree(aside, ignore_errors=True)
    return path.rename(aside)


def remove_unfinished(folder: Path) -> None:
    """Remove what a kill left of a checkpoint that was being written or removed."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.name.startswith(_UNFINISHED):
            shutil.rmtree(path)


def _unwritable(path: Path, needed: int, error: Exception) -> CheckpointError:
    message = f"checkpoint {path} could not be written ({error})"
    if _is_full(error):
        free = shutil.disk_usage(next(parent for parent in path.parents if parent.exists())).free
        message += f"; it needs about {needed / 1e6:.1f} MB there, and {free / 1e6:.1f} MB are free: make room"
    return CheckpointError(f"{message}. The checkpoints before it are intact: the run can be resumed")


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in _NO_SPACE
    return any(f"(os error {number})" in str(error) for number in _NO_SPACE)
