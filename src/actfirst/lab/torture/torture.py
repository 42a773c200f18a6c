"""Troubles one after the other until the time is over; after each the run is resumed and compared with a quiet one.

A run survives if it ends, is as it was written (`actfirst verify`), and has trained on what the quiet run trained on,
in the same order. Where rollouts overlap with updates two quiet runs differ, too: there nothing may be lost or doubled.
"""

from __future__ import annotations

import multiprocessing
import os
import random
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from actfirst.errors import ActfirstError, ConfigError
from actfirst.lab.torture.troubles import Trouble, draw
from actfirst.runs.run import Run, open_run
from actfirst.runs.run_folder import CONFIG
from actfirst.training.verify import verify_run

Command = Callable[[Sequence[str]], None]
"""`actfirst` with arguments, in the present process."""

_RESUMES = 3
_OPERATIONS = 40
_LOSS = 1e-4  # relative; rounding depends on what else is in a batch


@dataclass
class Tally:
    """Trials of one kind of trouble. `struck`: the trouble came before the run was over."""

    tried: int = 0
    struck: int = 0
    survived: int = 0
    failed: int = 0


@dataclass
class Tortured:
    """What came of it, by kind; `failures` say what happened, with the trouble that can be had again."""

    seed: int
    seconds: float = 0.0
    kinds: dict[str, Tally] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


class Torturer:
    """Runs a recipe in processes of its own below `folder`."""

    def __init__(self, command: Command, arguments: Sequence[str], folder: Path, *, exact: bool) -> None:
        self._command = command
        self._arguments = list(arguments)
        self._folder = folder
        self._exact = exact
        # Forked from a process that has imported everything: a run begins in a moment.
        self._processes = multiprocessing.get_context("forkserver")
        self._processes.set_forkserver_preload(
            ["actfirst.training.open", "actfirst.training.local", "transformers"]
        )
        self._quiet = folder / "quiet"
        self._seconds = 0.0

    def torture(self, seconds: float, seed: int, told: Callable[[Tortured], None]) -> Tortured:
        """Until so many seconds are over; the trouble that is under way then is finished."""
        started, dice, result = time.monotonic(), random.Random(seed), Tortured(seed)
        self._begin_quietly()
        while time.monotonic() - started < seconds:
            trouble = draw(dice, _OPERATIONS, self._seconds)
            self.trial(trouble, result)
            result.seconds = time.monotonic() - started
            told(result)
        return result

    def trial(self, trouble: Trouble, result: Tortured) -> None:
        """One trouble, the resumption, the comparison."""
        if not self._quiet.exists():
            self._begin_quietly()
        tally = result.kinds.setdefault(trouble.kind, Tally())
        tally.tried += 1
        run = self._folder / "run"
        shutil.rmtree(run, ignore_errors=True)
        code = self._train(run, trouble)
        tally.struck += code != 0
        for _ in range(_RESUMES):
            if code == 0:
                break
            code = self._train(run, None)
        faults = self._faults(run) if code == 0 else [f"it does not end: exit code {code}, {self._said(run)}"]
        if faults:
            tally.failed += 1
            result.failures.append(f"{trouble}: {'; '.join(faults[:3])}")
            shutil.move(run, self._folder / f"failed-{len(result.failures)}")
        else:
            tally.survived += 1

    def _begin_quietly(self) -> None:
        started = time.monotonic()
        if (code := self._train(self._quiet, None)) != 0:
            raise ConfigError(f"the recipe does not run, with exit code {code}: {self._said(self._quiet)}")
        self._seconds = time.monotonic() - started

    def _train(self, run: Path, trouble: Trouble | None) -> int:
        """Begin or resume a run; the exit code of its process, negative for a signal."""
        begun = (run / CONFIG).is_file()
        arguments = [
            "train",
            *([] if begun else self._arguments),
            "--run",
            str(run),
            *(["--resume"] if begun else []),
        ]
        process = self._processes.Process(
            target=_in_process, args=(self._command, arguments, trouble, run.with_suffix(".txt")), daemon=True
        )
        process.start()
        process.join()
        return process.exitcode or 0

    def _said(self, run: Path) -> str:
        lines = run.with_suffix(".txt").read_text(encoding="utf-8", errors="replace").splitlines()
        return lines[-1] if lines else "it said nothing"

    def _faults(self, run: Path) -> list[str]:
        faults = [str(finding) for finding in verify_run(run).findings]
        try:
            return faults or _differences(open_run(self._quiet), open_run(run), exact=self._exact)
        except ActfirstError as error:
            return [str(error)]


def _in_process(command: Command, arguments: Sequence[str], trouble: Trouble | None, said: Path) -> None:
    handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(handle, stream)
    if trouble is not None:
        trouble()
    command(arguments)


def _differences(quiet: Run, run: Run, *, exact: bool) -> list[str]:
    """What the run did otherwise than the quiet one."""
    if len(run.updates) != len(quiet.updates):
        return [f"{len(run.updates)} updates instead of {len(quiet.updates)}"]
    counts = Counter(sample for line in run.updates for sample in line.sample_ids)
    doubled = [sample for sample, times in counts.items() if times > 1]
    found = [f"{len(doubled)} samples were trained on twice, as {doubled[0]}"] if doubled else []
    for ours, theirs in zip(run.updates, quiet.updates, strict=True) if exact else ():
        if ours.sample_ids != theirs.sample_ids:
            return [*found, f"update {ours.update} trained on other samples"]
        gap = abs((ours.loss or 0.0) - (theirs.loss or 0.0))
        if gap > _LOSS * max(1.0, abs(theirs.loss or 0.0)):
            return [*found, f"update {ours.update} has the loss {ours.loss} instead of {theirs.loss}"]
    return found
