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
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field, replace
from pathlib import Path

from actfirst.errors import ActfirstError, ConfigError
from actfirst.lab.torture.draw import Draw, Given
from actfirst.lab.torture.power import PowerCut, after_cut
from actfirst.lab.torture.troubles import ANY, Struck, Trouble, unnoted, watch
from actfirst.runs.run import Run, open_run
from actfirst.runs.run_folder import CONFIG
from actfirst.training.verify import verify_run

Command = Callable[[Sequence[str]], None]
"""`actfirst` with arguments, in the present process."""

SHORT = (
    "run.updates=2",
    "environment.turn_limit=2",
    "environment.train_tasks=8",
    "environment.eval_tasks=2",
    "rollout.tasks_per_batch=2",
    "rollout.generation.first_stage=8",
    "rollout.generation.response_limit=24",
    "rollout.generation.continuation=8",
    "rollout.generation.fast_limit=16",
    "learner.batch_size=2",
    "learner.threads=1",
    "evaluation.at_start=false",
    "evaluation.at_end=false",
    "evaluation.every=0",
    "evaluation.teacher=false",
    "checkpoint.every=1",
    "pool.retries=12",  # more losses than that would be failed episodes, by the recipe's own rule
)
"""A run of seconds with two checkpoints."""
_RESUMES = 3
_LOSS = 1e-4  # relative; rounding depends on what else is in a batch

# Jobs are forked from a process that has imported everything and computed nothing, and runs from their job: each is a
# process of its own that begins in a moment.
JOBS = multiprocessing.get_context("forkserver")
"""Where trials belong: a process that has computed something must not be forked."""
_RUNS = multiprocessing.get_context("fork")
JOBS.set_forkserver_preload(
    [
        "actfirst.cli.main",
        "actfirst.training.open",
        "actfirst.training.local",
        "actfirst.engines.embedded",
        "actfirst.lab.torture.torture",
        "transformers.models.qwen3.modeling_qwen3",
        "transformers.conversion_mapping",
    ]
)


@dataclass
class Tally:
    """Trials of one kind of trouble. `struck`: how often the trouble came before the run was over."""

    tried: int = 0
    struck: int = 0
    survived: int = 0
    failed: int = 0


@dataclass
class Tortured:
    """What came of it, by kind; `failures` say what happened, with the troubles that can be had again. `kills` are
    processes that ended by SIGKILL, `runs` those that were troubled, resumed and compared."""

    seed: int
    seconds: float = 0.0
    runs: int = 0
    kills: int = 0
    operations: int = 0
    kinds: dict[str, Tally] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        for trouble, struck in outcome.struck:
            tally = self.kinds.setdefault(trouble.kind, Tally())
            tally.tried += 1
            tally.struck += struck
            tally.survived += not outcome.faults
            tally.failed += bool(outcome.faults)
            self.kills += struck if trouble.kills else 0
        if outcome.faults:
            troubles = ", then ".join(str(trouble) for trouble, _ in outcome.struck)
            self.failures.append(f"{troubles}: {'; '.join(outcome.faults[:3])}")


@dataclass(frozen=True)
class Outcome:
    """One run: its troubles in their order, how often each came, and what is wrong with the run in the end."""

    struck: tuple[tuple[Trouble, int], ...]
    faults: tuple[str, ...]


@dataclass(frozen=True)
class Torturer:
    """Runs a recipe in processes of its own below `folder`."""

    command: Command
    arguments: tuple[str, ...]
    folder: Path
    exact: bool
    parts: tuple[tuple[str, str], ...] = ()
    """Processes that runs of the recipe start: what their command lines hold, and what their loss is called."""

    def torture(self, seconds: float, seed: int, jobs: int, told: Callable[[Tortured], None]) -> Tortured:
        """A quiet run, then troubles for so many seconds, `jobs` runs at a time; those under way then are finished."""
        with ProcessPoolExecutor(jobs, JOBS) as pool:
            quiet = pool.submit(self.quiet).result()
            draw = Draw(random.Random(seed), quiet, self.parts)
            started, result = time.monotonic(), Tortured(seed, operations=quiet.operations)
            under_way: set[Future[Outcome]] = set()
            while under_way or time.monotonic() - started < seconds:
                while len(under_way) < jobs and time.monotonic() - started < seconds:
                    under_way.add(pool.submit(self.trial, draw.several()))
                ended, under_way = wait(under_way, return_when=FIRST_COMPLETED)
                for future in ended:
                    result.add(future.result())
                    result.seconds = time.monotonic() - started
                    told(result)
        return result

    def quiet(self) -> Given:
        """The run that nothing happens to, made once: how long it takes, and how often it touches files."""
        place, started = self.folder / "quiet", time.monotonic()
        code = self._train(place, _Counting(place.with_suffix(".count")))
        if code != 0:
            raise ConfigError(f"the recipe does not run, with exit code {code}: {_said(place)}")
        return Given(place.with_suffix(".count").stat().st_size, time.monotonic() - started)

    def trial(self, troubles: Sequence[Trouble]) -> Outcome:
        """Begin a run and resume it, with one trouble after the other until it ends; then the comparison."""
        place = self.folder / f"job-{os.getpid()}"
        shutil.rmtree(place, ignore_errors=True)
        struck, code = [], 1
        notes = place.with_suffix(".struck")
        for trouble in troubles:
            if isinstance(trouble, PowerCut):
                trouble = replace(trouble, folder=place)
            notes.write_bytes(b"")
            code = self._train(place, trouble, notes)
            struck.append((trouble, notes.stat().st_size))
            if code == 0:
                break
        for _ in range(_RESUMES):
            if code != 0:
                code = self._train(place)
        faults = self._faults(place) if code == 0 else [f"it does not end: exit code {code}, {_said(place)}"]
        if faults:
            shutil.move(place, self.folder / f"failed-{time.time_ns()}")
        return Outcome(tuple(struck), tuple(faults))

    def _train(self, place: Path, trouble: Trouble | None = None, notes: Path | None = None) -> int:
        """Begin or resume the run in a folder; the exit code of its process, negative for a signal."""
        run = place / "run"
        place.mkdir(exist_ok=True)
        begun = (run / CONFIG).is_file()
        arguments = [*([] if begun else self.arguments), "--run", str(run), *(["--resume"] if begun else [])]
        given = (self.command, ["train", *arguments], trouble, notes, place.with_suffix(".txt"))
        process = _RUNS.Process(target=_in_process, args=given)
        process.start()
        process.join()
        if after_cut(place).exists():
            shutil.rmtree(place)
            after_cut(place).rename(place)
        return process.exitcode or 0

    def _faults(self, place: Path) -> list[str]:
        try:
            faults = [str(finding) for finding in verify_run(place / "run").findings]
            quiet, run = open_run(self.folder / "quiet" / "run"), open_run(place / "run")
            return faults or differences(quiet, run, exact=self.exact)
        except ActfirstError as error:
            return [str(error)]


@dataclass(frozen=True)
class _Counting:
    """No trouble: `file` grows by one byte at each file operation."""

    file: Path
    kind: str = "none"
    kills: bool = False

    def __call__(self, struck: Struck = unnoted) -> None:
        watch(ANY, _noting(self.file))


def _noting(file: Path) -> Struck:
    write, handle = os.write, os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def note() -> None:
        write(handle, b".")

    return note


def _said(place: Path) -> str:
    lines = place.with_suffix(".txt").read_text(encoding="utf-8", errors="replace").splitlines()
    return lines[-1] if lines else "it said nothing"


def _in_process(
    command: Command, arguments: Sequence[str], trouble: Trouble | None, notes: Path | None, said: Path
) -> None:
    handle = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    for stream in (sys.stdout.fileno(), sys.stderr.fileno()):
        os.dup2(handle, stream)
    if trouble is not None:
        trouble(_noting(notes) if notes else unnoted)
    command(arguments)


def differences(quiet: Run, run: Run, *, exact: bool) -> list[str]:
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
