"""Corridors that crash, hang or fail on demand, for tests of the pool. Worker processes open them by reference.

A task id `corridor/<how>/<rooms>` says how its environment behaves; `once-<how>` misbehaves in the first process or
environment that plays it and leaves a mark in `folder`, so that a second attempt finds everything in order.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from actfirst.records import Observation, Task
from tests.support.toy_world import CorridorEnvironment, CorridorWorld

_EIGHT = threading.Barrier(8)


@dataclass
class MisbehavingEnvironment(CorridorEnvironment):
    folder: Path = Path()
    how: str = ""
    closed: int = field(default=0)

    def reset(self, task: Task) -> tuple[str, Observation]:
        self.how = task.id.split("/")[1]
        if self.how.startswith("once-"):
            mark = self.folder / task.id.replace("/", "_")
            self.how = "" if mark.exists() else self.how.removeprefix("once-")
            mark.touch()
        if self.how == "slow-reset":
            time.sleep(60)
        if self.how == "held-reset":
            self._mark()
            while not (self.folder / "go on").exists():
                time.sleep(0.01)
        if self.how in ("children", "daemon"):
            sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
            child = subprocess.Popen(sleeping, start_new_session=self.how == "daemon")
            (self.folder / "child").write_text(str(child.pid))
        return super().reset(task)

    def step(self, action: str) -> Observation:
        print("an environment that talks on stdout")
        self._mark()
        match self.how:
            case "crash":
                print("segmentation fault, as it were", file=sys.stderr, flush=True)
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(60)
            case "raise":
                raise RuntimeError("simulator gone")
            case "slow":
                time.sleep(0.3)
            case "meet":
                _EIGHT.wait(600)
        return super().step(action)

    def _mark(self) -> None:
        """Tells tests that a call is under way."""
        (self.folder / f"in-{self.how}").touch()

    def close(self) -> None:
        self.closed += 1
        (self.folder / "closed").touch()


@dataclass(frozen=True)
class MisbehavingWorld(CorridorWorld):
    folder: Path = Path()

    def open(self) -> MisbehavingEnvironment:
        return MisbehavingEnvironment(folder=self.folder)


def misbehaving(folder: Path) -> Callable[[], MisbehavingWorld]:
    """What a pool sends to its workers."""
    return partial(MisbehavingWorld, folder=folder)


def not_here() -> MisbehavingWorld:
    """A world that only its worker finds missing."""
    raise FileNotFoundError("no games here")
