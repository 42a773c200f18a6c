"""Everything that a report needs, made in one go: runs of all methods, their curves, and the measurements beside them.

    OUT/METHOD-seedN/                 a normal run folder, with evaluations/ of its stored checkpoints
    OUT/eval/{student,teacher}.json   zero-shot student and teacher
    OUT/bench/quality.json            acting strategies from vanilla's checkpoints
    OUT/bench/rollout*.json           rollout efficiency, measured and simulated
    OUT/failures.txt                  what could not be made, if anything

Every part is skipped when it is there and continued when it was stopped: repeat the command after any interruption. A
run that fails is noted and does not stop the others.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.errors import RunFolderError
from actfirst.lab import quality_bench, stored
from actfirst.lab.compare_runs import PlannedRun, Points, is_finished, make_runs, plan_runs, quality_updates
from actfirst.lab.curves import evaluate_checkpoints
from actfirst.lab.quality_bench import FrozenCheckpoint, Workload
from actfirst.lab.rollout import experiment
from actfirst.lab.rollout.settings import SCALES, engine_of
from actfirst.lab.rollout.simulated import PROMPT_TOKENS, LatencyModel
from actfirst.lab.side_by_side import Part, Say, make_parts
from actfirst.lab.spread import Told
from actfirst.methods.table import METHODS
from actfirst.models.folder import resolve_model
from actfirst.runs.files import write_atomically
from actfirst.runs.run import open_run
from actfirst.training.playing import evaluate_model, evaluation_fields

PROTOCOL_SEEDS = (42, 43, 44)
FAILURES = "failures.txt"


@dataclass(frozen=True)
class LabPlan:
    """What is made. `quality_tasks` 0 plays every training task; `scale` names a size of the rollout experiment;
    `curve_seeds` are the evaluation seeds of points on the way, by commas (the last has the protocol's three); `jobs`
    is how many runs are made at a time, each on processors of its own."""

    recipe: str
    methods: tuple[str, ...]
    overrides: tuple[str, ...]
    seeds: int
    out: Path
    quality_tasks: int = 100
    scale: str = "laptop"
    curve_seeds: str = "42"
    jobs: int = 1


def all_methods(config: Config) -> tuple[str, ...]:
    """Methods that only distil can be compared with one another; those that learn from rewards make teachers. The
    paper's ActFirst-OPD generates every response: a row of its own where the recipe does not."""
    distil = (name for name, method in METHODS.items() if not method.objective.compares)
    return (*distil, *([] if config.rollout.responses == "all" else ["actfirst:rollout.responses=all"]))


def run_lab(plan: LabPlan, say: Say) -> list[str]:
    """Make whatever is missing; returns what could not be made, one line each."""
    planned = plan_runs(plan.methods, plan.recipe, plan.overrides, plan.seeds, plan.out, Points.STORED)
    runs = [
        Part(run.name, partial(_run, plan, run, f"[{place}/{len(planned)} {run.name}]"))
        for place, run in enumerate(planned, start=1)
    ]
    failures = [
        *make_parts([Part("zero-shot student", partial(_evaluate, plan, "student"))], 1, say),
        *make_parts([*runs, Part("teacher", partial(_evaluate, plan, "teacher"))], plan.jobs, say),
        *make_parts(
            [
                Part("rollout quality", partial(_quality, plan, _vanilla(planned))),
                Part("rollout efficiency, simulated", partial(_simulated, plan)),
                Part("rollout efficiency", partial(_rollout, plan)),
            ],
            1,
            say,
        ),
    ]
    if failures:
        write_atomically(plan.out / FAILURES, "".join(f"{line}\n" for line in failures))
    else:
        (plan.out / FAILURES).unlink(missing_ok=True)
    return failures


def _run(plan: LabPlan, run: PlannedRun, label: str, say: Say) -> None:
    """One training run and the evaluations of its checkpoints."""
    make_runs([run], plan.recipe, lambda run, place, line: say(f"{label} {line}"))
    zero, own = _evaluation_path(plan, "student"), open_run(run.folder).evaluation_file(0)
    if zero.exists() and not own.exists():
        # The student before training is the same for all runs.
        own.parent.mkdir(exist_ok=True)
        shutil.copyfile(zero, own)

    def settings(final: bool) -> list[str]:
        """The last checkpoint by the paper's protocol, with three seeds; points on the way with those asked for."""
        return [
            f"evaluation.seeds={list(PROTOCOL_SEEDS)}" if final else f"evaluation.seeds=[{plan.curve_seeds}]"
        ]

    def told(update: int, done: int, of: int) -> None:
        if done == of:
            say(f"{label} evaluated update {update}: {of} episodes")

    evaluate_checkpoints(run.folder, settings, told)


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


def _vanilla(planned: Sequence[PlannedRun]) -> PlannedRun:
    return next((run for run in planned if run.spec.method == "vanilla"), planned[0])


def _quality(plan: LabPlan, run: PlannedRun, say: Say) -> None:
    """From checkpoints of vanilla's first run (without vanilla, the first method's): after update 1, half-way and at
    the end, as the paper does."""
    config = resolve(plan.recipe, list(plan.overrides))
    if not is_finished(run.folder):
        raise RunFolderError(f"it is measured from the checkpoints of {run.name}, which is not finished")
    saved = open_run(run.folder).checkpoints()
    nearest = [
        min(saved, key=lambda one: abs(one.update - update)) for update in quality_updates(saved[-1].update)
    ]
    frozen = [FrozenCheckpoint(f"update {one.update}", one.model, one.update) for one in dict.fromkeys(nearest)]

    def told(what: str, done: int, of: int) -> None:
        if done == of:
            say(f"rollout quality: {what}, {of} trajectories")

    path = plan.out / "bench" / "quality.json"
    quality_bench.measure(config, plan.recipe, frozen, Workload(plan.quality_tasks), path, told)


def _rollout(plan: LabPlan, say: Say) -> None:
    config = resolve(plan.recipe, [*engine_of(plan.scale, optimised=False), *plan.overrides])
    name = config.models.student
    model = resolve_model(name, "models.student")
    path = plan.out / "bench" / "rollout.json"
    experiment.measure(config, plan.recipe, model, name, SCALES[plan.scale], path, _points("measured", say))


def _simulated(plan: LabPlan, say: Say) -> None:
    settings, path = SCALES["paper"].one_batch(), plan.out / "bench" / "rollout-simulated.json"
    experiment.simulate(LatencyModel(), PROMPT_TOKENS, settings, path, _points("SIMULATED", say))


def _points(how: str, say: Say) -> Told:
    return lambda done, of, point: say(f"rollout efficiency, {how}: {done} of {of} points, {point}")


def _evaluation_path(plan: LabPlan, who: str) -> Path:
    return plan.out / "eval" / f"{who}.json"
