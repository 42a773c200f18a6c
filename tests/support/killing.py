"""Runs as processes of their own that are killed with SIGKILL at a known moment.

What a kill leaves behind changes only when the run touches a file, so runs are killed by count and not by the clock:
right before their n-th call of an operation on files, which is the same moment on a busy machine and on an idle one.
"""

from __future__ import annotations

import itertools
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

ANY = "write fsync rename replace"
KILLED = -signal.SIGKILL
Trouble = Callable[[], None]
"""What happens to a process before its command runs. It travels to the process, so it belongs to a module."""

# Every run is a process of its own, forked from one that has imported everything.
processes = multiprocessing.get_context("forkserver")
processes.set_forkserver_preload(
    ["actfirst.training.open", "actfirst.training.local", "actfirst.engines.embedded", "transformers"]
)


@dataclass(frozen=True)
class Kill:
    """Right before the `count`-th call of one of the `operations` of `os`."""

    operations: str
    count: int

    def __call__(self) -> None:
        calls = itertools.count(1)

        def called() -> None:
            if next(calls) == self.count:
                os.kill(os.getpid(), signal.SIGKILL)

        _watch(self.operations, called)


@dataclass(frozen=True)
class Tally:
    """Kills nothing: `file` grows by one byte at each call of any operation."""

    file: Path

    def __call__(self) -> None:
        write, handle = os.write, os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        _watch(ANY, lambda: write(handle, b".") and None)


def _watch(operations: str, called: Callable[[], None]) -> None:
    """Calls of the thread that samples utilisation do not count: their number depends on the clock."""

    def watched(operation: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **more: Any) -> Any:
            if threading.current_thread().name != "utilisation":
                called()
            return operation(*arguments, **more)

        return call

    for name in operations.split():
        setattr(os, name, watched(getattr(os, name)))


def train(arguments: Sequence[str], *troubles: Trouble) -> int | None:
    """The exit code of `actfirst train` in a process of its own."""
    process: BaseProcess = processes.Process(target=_train, args=(arguments, troubles), daemon=True)
    process.start()
    process.join()
    return process.exitcode


def _train(arguments: Sequence[str], troubles: Sequence[Trouble]) -> None:
    from actfirst.cli.main import main

    for trouble in troubles:
        trouble()
    main(["train", *arguments])
