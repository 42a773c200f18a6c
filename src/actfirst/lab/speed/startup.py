"""`actfirst bench startup`: what a command costs before its first episode begins.

Each start is a process of its own: this module as a program, which runs the command line as a person would and ends
where the first episode would begin. Processor time and the number of loaded modules are counted; the commands take
turns.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

from actfirst.errors import EngineError
from actfirst.lab.spread import Spread, Told

COMMANDS: dict[str, tuple[str, ...]] = {
    "train": ("train", "pocket", "evaluation.at_start=false", "--run", "run"),
    "eval": ("eval", "pocket:student", "--tasks", "1"),
    "play": ("play", "pocket", "--model", "pocket:student"),
}
_TOLD = "start.json"


@dataclass(frozen=True, slots=True)
class Start:
    """Processor seconds of each start, and the modules that were loaded."""

    command: str
    seconds: tuple[float, ...]
    modules: int

    @property
    def spread(self) -> Spread:
        return Spread.of(self.seconds)


def measure(names: list[str], repeats: int, told: Told) -> list[Start]:
    """Start each command `repeats` times, after one start that is not counted: it reads the files from the disk."""
    seconds: dict[str, list[float]] = {name: [] for name in names}
    modules: dict[str, int] = {}
    for turn in range(repeats + 1):
        for name in names:
            found = _start(COMMANDS[name])
            modules[name] = int(found["modules"])
            if turn:
                seconds[name].append(found["seconds"])
        told(turn + 1, repeats + 1, "")
    return [Start(name, tuple(seconds[name]), modules[name]) for name in names]


def to_json(starts: list[Start]) -> dict[str, object]:
    return {"starts": [asdict(start) for start in starts]}


def _start(arguments: tuple[str, ...]) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(
            [sys.executable, "-m", __name__, *arguments],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        told = Path(folder) / _TOLD
        if not told.is_file():
            raise EngineError(
                f"`actfirst {' '.join(arguments)}` did not begin an episode: {done.stderr[-500:]}"
            )
        found: dict[str, float] = json.loads(told.read_text("utf-8"))  # noqa: TID251  our own
        return found


def _run() -> None:
    """The child: the command line, up to the first episode."""
    from actfirst.rollout.play import Player

    def first(*_: object, **__: object) -> None:
        found = {"seconds": time.process_time(), "modules": len(sys.modules)}
        Path(_TOLD).write_text(json.dumps(found), "utf-8")
        os._exit(0)

    Player.play = first  # type: ignore[method-assign, assignment]
    runpy.run_module("actfirst", run_name="__main__")


if __name__ == "__main__":
    _run()
