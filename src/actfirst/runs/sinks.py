"""Metric services beside the run folder: TensorBoard, Weights & Biases, trackio. All optional, none needed.

Each is imported when it is opened. W&B writes offline unless WANDB_MODE says otherwise (`wandb sync` uploads).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from actfirst.errors import ConfigError

PROJECT = "actfirst"


class Sink(Protocol):
    """Takes the metrics of a step. Steps never decrease, except when a run is resumed."""

    def log(self, step: int, values: Mapping[str, float]) -> None: ...

    def close(self) -> None: ...


def check_sinks(names: Sequence[str]) -> None:
    """Raise ConfigError if a sink's package is not installed."""
    for name in names:
        _require(name, name)


def open_sinks(names: Sequence[str], folder: Path) -> list[Sink]:
    """The sinks of `tracking.sinks` for the run in `folder`; raises ConfigError if one is not installed."""
    return [SINKS[name](folder) for name in names]


class TensorBoardSink:
    """Event files in the run folder: `tensorboard --logdir runs` shows them."""

    def __init__(self, folder: Path) -> None:
        _require("tensorboard", "tensorboard")
        self._writer: Any = _require("torch.utils.tensorboard", "tensorboard").SummaryWriter(
            log_dir=str(folder / "tensorboard")
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, global_step=step)

    def close(self) -> None:
        self._writer.close()


class RunSink:
    """A run of a service with W&B's interface, named after the run folder."""

    def __init__(self, run: Any) -> None:
        self._run = run

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def close(self) -> None:
        self._run.finish()


def _wandb(folder: Path) -> Sink:
    mode = os.environ.get("WANDB_MODE", "offline")
    wandb = _require("wandb", "wandb")
    return RunSink(wandb.init(project=PROJECT, name=folder.name, dir=str(folder), mode=mode))


def _trackio(folder: Path) -> Sink:
    """Local: `trackio show` opens it."""
    quiet = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
    trackio = _require("trackio", "trackio")
    return RunSink(trackio.init(project=PROJECT, name=folder.name, resume="allow", **quiet))


SINKS: dict[str, Callable[[Path], Sink]] = {
    "tensorboard": TensorBoardSink,
    "wandb": _wandb,
    "trackio": _trackio,
}


def _require(module: str, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"tracking.sinks names {extra}, which is not installed ({error}); "
            f"run `pip install 'actfirst[{extra}]'`, or remove it from tracking.sinks"
        ) from error
