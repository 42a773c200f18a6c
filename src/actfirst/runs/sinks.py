"""Metric services beside the run folder: TensorBoard, Weights & Biases, trackio. All optional, none needed.

Each is imported when it is opened. W&B writes offline unless WANDB_MODE says otherwise (`wandb sync` uploads).
What they are told is in `tracking.py`.
"""

from __future__ import annotations

import html
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

from actfirst.errors import ConfigError


class Sink(Protocol):
    """Takes the metrics of a step. Steps never decrease, except when a run is resumed."""

    def log(self, step: int, values: Mapping[str, float]) -> None: ...

    def table(self, step: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True)
class Tracked:
    """The run as a service knows it. `config` is the whole recipe."""

    folder: Path
    project: str
    name: str
    config: Mapping[str, object]


def check_sinks(names: Sequence[str]) -> None:
    """Raise ConfigError if a sink's package is not installed."""
    for name in names:
        _require(name, name)


def open_sinks(names: Sequence[str], run: Tracked) -> list[Sink]:
    """The sinks of `tracking.sinks`; raises ConfigError if one is not installed."""
    return [SINKS[name](run) for name in names]


class TensorBoardSink:
    """Event files in the run folder: `tensorboard --logdir runs` shows them."""

    def __init__(self, run: Tracked) -> None:
        _require("tensorboard", "tensorboard")
        self._writer: Any = _require("torch.utils.tensorboard", "tensorboard").SummaryWriter(
            log_dir=str(run.folder / "tensorboard")
        )

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, global_step=step)

    def table(self, step: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        lines = [columns, ["---"] * len(columns), *([_cell(cell) for cell in row] for row in rows)]
        text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        self._writer.add_text(name, text, global_step=step)

    def close(self) -> None:
        self._writer.close()


class RunSink:
    """A run of a service with W&B's interface."""

    def __init__(self, run: Any, table: Callable[..., object]) -> None:
        self._run, self._table = run, table

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=step)

    def table(self, step: int, name: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        shown = self._table(columns=list(columns), data=[list(row) for row in rows])
        self._run.log({name: shown}, step=step)

    def close(self) -> None:
        self._run.finish()


def _wandb(run: Tracked) -> Sink:
    mode = os.environ.get("WANDB_MODE", "offline")
    wandb = _require("wandb", "wandb")
    return RunSink(
        wandb.init(project=run.project, name=run.name, config=dict(run.config), dir=str(run.folder), mode=mode),
        wandb.Table,
    )


def _trackio(run: Tracked) -> Sink:
    """Local: `trackio show` opens it."""
    quiet = {"embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
    trackio = _require("trackio", "trackio")
    return RunSink(
        trackio.init(project=run.project, name=run.name, config=dict(run.config), resume="allow", **quiet),
        trackio.Table,
    )


SINKS: dict[str, Callable[[Tracked], Sink]] = {
    "tensorboard": TensorBoardSink,
    "wandb": _wandb,
    "trackio": _trackio,
}


def _cell(text: str) -> str:
    """Text in a cell of Markdown, with nothing in it that is read as Markdown or HTML."""
    return html.escape(text).replace("|", "&#124;").replace("\n", "<br>")


def _require(module: str, extra: str) -> ModuleType:
    try:
        return import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"tracking.sinks names {extra}, which is not installed ({error}); "
            f"run `pip install 'actfirst[{extra}]'`, or remove it from tracking.sinks"
        ) from error
