"""Everything that a report needs, made in one go: runs of all methods, their curves, and the measurements beside them.

    OUT/METHOD-seedN/                 a normal run folder, with evaluations/ of its stored checkpoints
    OUT/eval/{student,teacher}.json   zero-shot student and teacher
    OUT/bench/quality.json            acting strategies from the first method's checkpoints
    OUT/bench/rollout*.json           rollout efficiency, measured and simulated
    OUT/failures.txt                  what could not be made, if anything

Every part is skipped when it is there and continued when it was stopped: repeat the command after any interruption. A
run that fails is noted and does not stop the others.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actfirst.config.load import resolve
from actfirst.errors import ActfirstError, RunFolderError
from actfirst.evaluate.model import evaluate_model, evaluation_fields
from actfirst.lab import quality_bench, stored
from actfirst.lab.compare_runs import PlannedRun, Points, is_finished, make_runs, plan_runs
from actfirst.lab.curves import evaluate_checkpoints
from actfirst.lab.quality_bench import FrozenCheckpoint, Workload
from actfirst.lab.rollout import experiment
from actfirst.lab.rollout.run import Timing
from actfirst.lab.rollout.settings import SCALES
from actfirst.lab.rollout.simulated import PROMPT_TOKENS, LatencyModel
from actfirst.models.folder import resolve_model
from actfirst.runs.files import write_atomically
from actfirst.runs.run import open_run

PROTOCOL_SEEDS = (42, 43, 44)
FAILURES = "failures.txt"

Say = Callable[[str], None]


@dataclass(frozen=True)
class LabPlan:
    """What is made. `quality_tasks` 0 plays every training task; `scale` names a size of the rollout experiment."""

    recipe: str
    methods: tuple[str, ...]
    overrides: tuple[str, ...]
    seeds: int
    out: Path
    quality_tasks: int = 100
    scale: str = "laptop"


@dataclass(frozen=True)
class _Part:
    name: str
    make: Callable[[], None]


def run_lab(plan: LabPlan, say: Say) -> list[str]:
    """Make whatever is missing; returns what could not be made, one line each."""
    planned = plan_runs(plan.methods, plan.recipe, plan.overrides, plan.seeds, plan.out, Points.STORED)
    parts = [
        _Part("zero-shot student", lambda: _evaluate(plan, "student", say)),
        *(
            _Part(run.name, _Run(run, place, len(planned), plan, say))
            for place, run in enumerate(planned, start=1)
        ),
        _Part("teacher", lambda: _evaluate(plan, "teacher", say)),
        _Part("rollout quality", lambda: _quality(plan, planned, say)),
        _Part("rollout efficiency, simulated", lambda: _simulated(plan, say)),
        _Part("rollout efficiency", lambda: _rollout(plan, say)),
    ]
    failures: list[str] = []
    for part in parts:
        try:
            part.make()
        except ActfirstError as error:
            failures.append(f"{part.name}: {error}")
            say(f"FAILED {failures[-1]}")
    _note(plan.out / FAILURES, failures)
    return failures


@dataclass(frozen=True)
class _Run:
    """One training run and the evaluations of its checkpoints."""

    run: PlannedRun
    place: int
    of: int
    plan: LabPlan
    say: Say

    def __call__(self) -> None:
        label = f"[{self.place}/{self.of} {self.run.name}]"
        make_runs([self.run], self.plan.recipe, lambda run, place, line: self.say(f"{label} {line}"))
        zero = _evaluation_path(self.plan, "student")
        first = open_run(self.run.folder).evaluation_file(0)
        if zero.exists() and not first.exists():
            # The student before training is the same for all runs.
            first.parent.mkdir(exist_ok=True)
            shutil.copyfile(zero, first)
        evaluate_checkpoints(self.run.folder, self._settings, self._tell(label))

    @staticmethod
    def _settings(final: bool) -> list[str]:
        """The last checkpoint by the paper's protocol, with three seeds; points on the way with one."""
        return [f"evaluation.seeds={list(PROTOCOL_SEEDS if final else PROTOCOL_SEEDS[:1])}"]

    def _tell(self, label: str) -> Callable[[int, int, int], None]:
        def tell(update: int, done: int, of: int) -> None:
            if done == of:
                self.say(f"{label} evaluated update {update}: {of} episodes")

        return tell


def _evaluate(plan: LabPlan, who: str, say: Say) -> None:
    path = _evaluation_path(plan, who)
    if path.exists():
        return
    config = resolve(plan.recipe, [*plan.overrides, f"evaluation.seeds={list(PROTOCOL_SEEDS)}"])
    if who == "teacher" and config.teacher.kind == "server":
        say("the teacher is on a server and is not evaluated")
        return
    name = config.models.student if who == "student" else config.models.teacher
    say(f"evaluating the {who}, {name}")
    result = asyncio.run(evaluate_model(config, resolve_model(name, f"models.{who}"), lambda done, of: None))
    fields = evaluation_fields(config, name, plan.recipe, "think", result)
    stored.store(path, stored.EVALUATION, {**fields, "who": who, "update": 0, "training_seconds": 0.0})


def _quality(plan: LabPlan, planned: Sequence[PlannedRun], say: Say) -> None:
    """From the first method's first run: before, half-way and at the end, as the paper does with vanilla."""
    config = resolve(plan.recipe, list(plan.overrides))
    frozen = [FrozenCheckpoint("update 0", resolve_model(config.models.student, "models.student"), 0)]
    if not is_finished(planned[0].folder):
        raise RunFolderError(f"it is measured from the checkpoints of {planned[0].name}, which is not finished")
    saved = open_run(planned[0].folder).checkpoints()
    for checkpoint in dict.fromkeys((saved[(len(saved) - 1) // 2], saved[-1])):
        frozen.append(FrozenCheckpoint(f"update {checkpoint.update}", checkpoint.model, checkpoint.update))

    def told(what: str, done: int, of: int) -> None:
        if done == of:
            say(f"rollout quality: {what}, {of} trajectories")

    path = plan.out / "bench" / "quality.json"
    quality_bench.measure(config, plan.recipe, frozen, Workload(plan.quality_tasks), path, told)


def _rollout(plan: LabPlan, say: Say) -> None:
    config = resolve(plan.recipe, ["engine.prefix_caching=false", *plan.overrides])
    name = config.models.student
    model = resolve_model(name, "models.student")
    path = plan.out / "bench" / "rollout.json"
    experiment.measure(config, plan.recipe, model, name, SCALES[plan.scale], path, _told("measured", say))


def _simulated(plan: LabPlan, say: Say) -> None:
    path = plan.out / "bench" / "rollout-simulated.json"
    experiment.simulate(
        LatencyModel(), PROMPT_TOKENS, SCALES["paper"].one_batch(), path, _told("SIMULATED", say)
    )


def _told(how: str, say: Say) -> Callable[[int, int, Timing], None]:
    return lambda done, of, timing: say(
        f"rollout efficiency, {how}: {done} of {of} points, {timing.full} tokens, cap {timing.cap}, "
        f"{timing.turns} turns: {timing.speedup:.2f}x"
    )


def _evaluation_path(plan: LabPlan, who: str) -> Path:
    return plan.out / "eval" / f"{who}.json"


def _note(path: Path, failures: Sequence[str]) -> None:
    if failures:
        write_atomically(path, "".join(f"{line}\n" for line in failures))
    else:
        path.unlink(missing_ok=True)
