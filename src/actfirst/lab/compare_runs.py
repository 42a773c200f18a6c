"""Runs methods under one recipe with several training seeds, for `actfirst compare` and `actfirst lab`.

The order rotates from seed to seed (A B C, C A B, B C A), so that a machine that grows slower or faster
affects all methods alike. Every run is a normal run folder made by a fresh process: no memory, thread or cache is
handed on. A finished run is not repeated, an unfinished one is resumed.
"""

from __future__ import annotations

import difflib
import os
import re
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.load import differences, resolve
from actfirst.errors import ConfigError, RunFolderError
from actfirst.lab.compare import Comparison, MethodRuns, compare
from actfirst.methods.table import METHODS
from actfirst.runs import files
from actfirst.runs.run import Run, open_run
from actfirst.runs.run_folder import CONFIG, SUMMARY

POINTS = 6
"""Points of a curve where the recipe asks for none."""


class Points(StrEnum):
    """Where the points of success against time come from."""

    DURING = "during"  # the run evaluates itself now and then
    STORED = "stored"  # the run keeps checkpoints, which are evaluated afterwards


_TOLD = ("update ", "evaluated", "finished before")  # how lines begin that say how a run stands
_COMMAND = (sys.executable, "-m", "actfirst", "train")
_PATIENCE = 20.0
_HARMLESS = ("evaluation.teacher",)  # which run evaluates the frozen teacher depends on the order of methods


@dataclass(frozen=True)
class MethodSpec:
    """A method as a command line names it: `actfirst`, or with overrides `actfirst:rollout.responses=all`."""

    text: str
    method: str
    overrides: tuple[str, ...]

    @property
    def label(self) -> str:
        title = METHODS[self.method].title
        return f"{title} ({', '.join(map(_short, self.overrides))})" if self.overrides else title

    @property
    def slug(self) -> str:
        return re.sub(r"[^a-z0-9.]+", "-", "-".join([self.method, *map(_short, self.overrides)]).lower())


@dataclass(frozen=True)
class PlannedRun:
    """One run to be made."""

    spec: MethodSpec
    seed: int
    folder: Path
    overrides: tuple[str, ...]

    @property
    def name(self) -> str:
        return f"{self.spec.label}, seed {self.seed}"


Told = Callable[[PlannedRun, int, str], None]
"""Told of a run, its place in the plan (from 1), and a line that it printed about how it stands."""


def parse_spec(text: str) -> MethodSpec:
    """`METHOD` or `METHOD:key=value,key=value`."""
    method, _, rest = text.partition(":")
    if method not in METHODS:
        close = difflib.get_close_matches(method, METHODS, n=1)
        hint = f"did you mean {close[0]}?" if close else f"there are {', '.join(METHODS)}"
        raise ConfigError(f"there is no method {method!r}; {hint}")
    # A comma also separates the items of a list, so a new override begins only where a key and "=" follow.
    overrides = tuple(re.split(r",(?=[A-Za-z_][\w.]*=)", rest)) if rest else ()
    return MethodSpec(text, method, overrides)


def plan_runs(
    methods: Sequence[str],
    recipe: str,
    overrides: Sequence[str],
    seeds: int,
    out: Path,
    points: Points = Points.DURING,
) -> list[PlannedRun]:
    """Every run in the order in which it is made. All configurations are checked before any run starts."""
    if not methods:
        raise ConfigError(
            "nothing to compare: name at least one method, as in `actfirst compare vanilla actfirst`"
        )
    specs = [parse_spec(text) for text in methods]
    if len({spec.slug for spec in specs}) < len(specs):
        raise ConfigError(
            f"a method is named twice in {', '.join(methods)}; give each once, or with other overrides"
        )
    base = resolve(recipe, overrides)
    planned: list[PlannedRun] = []
    for turn in range(seeds):
        shift = turn % len(specs)
        for spec in (*specs[len(specs) - shift :], *specs[: len(specs) - shift]):
            seed = base.run.seed + turn
            asked = (*overrides, *spec.overrides)
            settings = (
                *asked,
                f"rollout.method={spec.method}",
                f"run.seed={seed}",
                *_not_asked(_point_settings(points, base, first=not planned), asked),
            )
            planned.append(PlannedRun(spec, seed, out / f"{spec.slug}-seed{seed}", settings))
    for run in planned:
        _check(run, recipe)
    return planned


def _not_asked(settings: Sequence[str], asked: Sequence[str]) -> list[str]:
    """Settings that nobody has chosen on the command line; that only one run evaluates the teacher is not a choice."""
    chosen = {text.partition("=")[0] for text in asked} - set(_HARMLESS)
    return [text for text in settings if text.partition("=")[0] not in chosen]


def _point_settings(points: Points, base: Config, *, first: bool) -> list[str]:
    enough = max(1, base.run.updates // POINTS)
    asked = base.evaluation.every
    if points is Points.STORED:
        # A recipe that names the checkpoints of its curve keeps those; another one keeps some, evenly spaced.
        named = base.checkpoint.keep_at
        spaced = (enough, base.run.updates)
        every, keep = (base.checkpoint.every, base.checkpoint.keep) if named else spaced
        return [
            f"checkpoint.every={every}",
            f"checkpoint.keep={keep}",
            f"checkpoint.keep_at={sorted({*named, *quality_updates(base.run.updates)})}",
            "evaluation.every=0",
            "evaluation.start_tasks=0",
            "evaluation.at_start=false",
            "evaluation.at_end=false",
            "evaluation.teacher=false",
        ]
    return [
        f"evaluation.every={asked if 0 < asked < base.run.updates else enough}",
        "evaluation.at_start=true",
        "evaluation.start_tasks=0",  # all points of a curve are of the same tasks
        "evaluation.at_end=true",
        # The teacher is frozen: evaluating it once is enough.
        f"evaluation.teacher={str(base.evaluation.teacher and first).lower()}",
    ]


def quality_updates(updates: int) -> tuple[int, ...]:
    """Where rollout quality is measured: the paper's 1, 125 and 250 of 250 updates."""
    return tuple(dict.fromkeys((1, max(1, updates // 2), updates)))


def make_runs(planned: Sequence[PlannedRun], recipe: str, progress: Told) -> None:
    """Make what is not made yet, one run after the other."""
    for place, run in enumerate(planned, start=1):
        if is_finished(run.folder):
            progress(run, place, "finished before")
            continue
        log = run.folder.parent / f"{run.folder.name}.log"
        with files.writing(log):
            log.parent.mkdir(parents=True, exist_ok=True)
        files.append_whole(log, "")  # a folder that cannot be written is not the fault of the run
        _train(_arguments(run, recipe), log, run, partial(progress, run, place))


def collect(planned: Sequence[PlannedRun]) -> Comparison:
    """The comparison of finished runs; methods stand in the order in which the first seed ran them."""
    runs: dict[MethodSpec, list[Run]] = {}
    for run in planned:
        runs.setdefault(run.spec, []).append(open_run(run.folder))
    return compare([MethodRuns(spec.label, spec.text, tuple(found)) for spec, found in runs.items()])


def is_finished(folder: Path) -> bool:
    return (folder / SUMMARY).is_file()


def _check(run: PlannedRun, recipe: str) -> None:
    wanted = resolve(recipe, run.overrides)
    saved = resolve(run.folder / CONFIG) if (run.folder / CONFIG).is_file() else wanted
    if changed := [key for key in differences(saved, wanted) if key not in _HARMLESS]:
        raise ConfigError(
            f"{run.folder} holds a run with other settings of {', '.join(changed)}; "
            "choose another folder with --out, or repeat the settings that it was made with"
        )


def _arguments(run: PlannedRun, recipe: str) -> list[str]:
    place = ["--run", str(run.folder)]
    if (run.folder / CONFIG).is_file():
        return [*_COMMAND, *place, "--resume"]
    return [*_COMMAND, recipe, *run.overrides, *place]


def _train(arguments: Sequence[str], log: Path, run: PlannedRun, on_line: Callable[[str], None]) -> None:
    latest: deque[str] = deque(maxlen=10)
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    with subprocess.Popen(
        arguments,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        encoding="utf-8",
        env=environment,
    ) as child:
        assert child.stdout is not None
        try:
            with _ended_together(child):
                for line in child.stdout:
                    files.append_whole(log, line)
                    if line.strip():
                        latest.append(line.rstrip())
                    if line.startswith(_TOLD):
                        on_line(line.rstrip())
                code = child.wait()
        except BaseException:
            _end(child)
            raise
    if code == 130:
        raise KeyboardInterrupt
    if code != 0 or not is_finished(run.folder):
        said = "\n".join(f"  {line}" for line in latest)
        raise RunFolderError(
            f"the run {run.name} ended with exit code {code}; it said last:\n{said}\n"
            f"all of it is in {log}; repeat the command to go on from there"
        )


@contextmanager
def _ended_together(child: subprocess.Popen[str]) -> Iterator[None]:
    """SIGTERM reaches only this process, so it interrupts the child too."""

    def interrupt(*_: object) -> None:
        child.send_signal(signal.SIGINT)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _end(child: subprocess.Popen[str]) -> None:
    """An interrupt reaches the child too; it gets time to write down where it stands."""
    try:
        child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.terminate()


def _short(override: str) -> str:
    """`rollout.responses=all` is known as `all`; other overrides by the last part of their key."""
    key, _, value = override.partition("=")
    return value if key == "rollout.responses" else f"{key.rpartition('.')[2]}={value}"
