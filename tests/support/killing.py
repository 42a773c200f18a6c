"""Runs as processes of their own that are killed with SIGKILL at a known moment.

What a kill leaves behind changes only when the run touches a file, so runs are killed by count and not by the clock:
right before their n-th call of an operation on files, which is the same moment on a busy machine and on an idle one.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.process import BaseProcess
from pathlib import Path

from actfirst.lab.torture.troubles import watch

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
class Tally:
    """Kills nothing: `file` grows by one byte at each call of any operation."""

    file: Path

    def __call__(self) -> None:
        write, handle = os.write, os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        watch(ANY, lambda: write(handle, b".") and None)


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
