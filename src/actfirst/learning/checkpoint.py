"""Crash-safe checkpoints: after a kill at any moment, every checkpoint that can be seen is whole.

    <folder>/step-000012/
        model/      a Hugging Face folder for `from_pretrained`: config, tokenizer files, model.safetensors
        training/   optimizer.safetensors, samples.npz (the buffer), rng.json, state.json (the caller's state)
        manifest.json

A checkpoint is written under another name in the same folder, brought to the disk, sealed with its manifest and
renamed. The weights are the float32 master weights, so a resumed run continues bit by bit.
"""

from __future__ import annotations

import errno
import json
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from actfirst.errors import CheckpointError
from actfirst.learning.manifest import is_complete, seal, sync_folder, verify
from actfirst.learning.rng import capture_rng
from actfirst.learning.samples import load_samples, save_samples
from actfirst.learning.update import Learner, LearnerState
from actfirst.records import TurnSample

_STEP = re.compile(r"step-(\d{6,})")
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNFINISHED = (".writing-", ".removing-")
# What a model folder holds beside weights: config, generation config, tokenizer, chat template.
_COPIED = (".json", ".jinja", ".txt", ".model")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A loaded checkpoint. `rng` goes to `restore_rng`, `learner` to `Learner.restore`."""

    path: Path
    step: int
    learner: LearnerState
    samples: tuple[TurnSample, ...]
    trainer_state: Mapping[str, Any]
    rng: dict[str, Any]

    @property
    def model(self) -> Path:
        """The model as a Hugging Face folder."""
        return self.path / "model"


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest valid checkpoint, and why newer ones were passed over."""

    checkpoint: Checkpoint | None
    rejected: tuple[str, ...]


def save(
    folder: Path, learner: Learner, samples: Sequence[TurnSample], trainer_state: Mapping[str, object]
) -> Path:
    """Write the checkpoint of the learner's present version; an older one of the same step is replaced.

    `samples` is the buffer and `trainer_state` anything JSON-able. When the disk is full, CheckpointError is
    raised and the checkpoints before it stay as they are.
    """
    final = folder / f"step-{learner.version:06d}"
    writing = folder / f".writing-{final.name}"
    state = learner.state()
    text = json.dumps({"version": state.version, "trainer": trainer_state})
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _remove_unfinished(folder)
        _write(writing, learner.source, state, samples, text)
        seal(writing)
        _put_in_place(writing, final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(writing, ignore_errors=True)
        raise _unwritable(final, state, error) from error
    return final


def load(path: Path) -> Checkpoint:
    """Verify a checkpoint against its manifest and load it; CheckpointError names the file that is broken."""
    name = _STEP.fullmatch(path.name)
    if name is None or not path.is_dir():
        raise CheckpointError(f"{path} is not a checkpoint: expected a folder named step-000012 or the like")
    verify(path)
    training = path / "training"
    state = json.loads((training / "state.json").read_text(encoding="utf-8"))
    learner = LearnerState(
        version=state["version"],
        weights=load_file(path / "model" / "model.safetensors"),
        optimizer=load_file(training / "optimizer.safetensors"),
    )
    return Checkpoint(
        path=path,
        step=int(name[1]),
        learner=learner,
        samples=load_samples(training / "samples.npz"),
        trainer_state=state["trainer"],
        rng=json.loads((training / "rng.json").read_text(encoding="utf-8")),
    )


def latest(folder: Path) -> Path | None:
    """The newest complete checkpoint, by names and sizes. Leftovers of killed writes do not count."""
    return next((path for path in _steps(folder) if is_complete(path)), None)


def latest_valid(folder: Path) -> Latest:
    """The newest checkpoint that loads; `rejected` says why newer ones were passed over."""
    rejected: list[str] = []
    for path in _steps(folder):
        try:
            return Latest(load(path), tuple(rejected))
        except CheckpointError as error:
            rejected.append(str(error))
    return Latest(None, tuple(rejected))


def prune(folder: Path, keep: int) -> None:
    """Remove all complete checkpoints but the newest `keep`."""
    if keep < 1:
        raise ValueError("keep must be at least 1")
    for path in [path for path in _steps(folder) if is_complete(path)][keep:]:
        shutil.rmtree(_set_aside(path))


def _steps(folder: Path) -> list[Path]:
    """Folders with a checkpoint's name, newest first."""
    if not folder.is_dir():
        return []
    found = [(int(name[1]), path) for path in folder.iterdir() if (name := _STEP.fullmatch(path.name))]
    return [path for _, path in sorted(found, reverse=True) if path.is_dir()]


def _write(folder: Path, source: Path, state: LearnerState, samples: Sequence[TurnSample], text: str) -> None:
    model, training = folder / "model", folder / "training"
    model.mkdir(parents=True)
    training.mkdir()
    for path in sorted(source.iterdir()):
        if path.suffix in _COPIED and path.is_file() and not path.name.endswith(".index.json"):
            shutil.copyfile(path, model / path.name)
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    config.pop("torch_dtype", None)
    config["dtype"] = "float32"
    (model / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file(_on_cpu(state.weights), model / "model.safetensors", metadata={"format": "pt"})
    save_file(_on_cpu(state.optimizer), training / "optimizer.safetensors")
    save_samples(training / "samples.npz", samples)
    (training / "rng.json").write_text(json.dumps(capture_rng()), encoding="utf-8")
    (training / "state.json").write_text(text, encoding="utf-8")


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


def _remove_unfinished(folder: Path) -> None:
    for path in folder.iterdir():
        if path.name.startswith(_UNFINISHED):
            shutil.rmtree(path)


def _unwritable(path: Path, state: LearnerState, error: Exception) -> CheckpointError:
    message = f"checkpoint {path} could not be written ({error})"
    if _is_full(error):
        tensors = (*state.weights.values(), *state.optimizer.values())
        needed = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        free = shutil.disk_usage(next(parent for parent in path.parents if parent.exists())).free
        message += f"; it needs about {needed / 1e6:.1f} MB there, and {free / 1e6:.1f} MB are free: make room"
    return CheckpointError(f"{message}. The checkpoints before it are intact: the run can be resumed")


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in _NO_SPACE
    return any(f"(os error {number})" in str(error) for number in _NO_SPACE)
