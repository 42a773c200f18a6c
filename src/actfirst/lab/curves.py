"""Success against training time from stored checkpoints (paper, "Performance-Time Trade-off").

A run that keeps its checkpoints can be evaluated afterwards, with any number of seeds, and its training time is not
disturbed. Each evaluation is a result file in the run's own folder, `evaluations/update-000010.json`; those that are
there are not made again.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from actfirst.errors import CheckpointError
from actfirst.lab import stored
from actfirst.lab.results import read_evaluation
from actfirst.runs.lines import EvaluationLine
from actfirst.runs.run_folder import CHECKPOINTS, CONFIG

EVALUATIONS = "evaluations"
_STEP = re.compile(r"step-(\d+)")
_EVALUATION = re.compile(r"update-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A checkpoint of a run: after which update and how many seconds of training, and its model folder."""

    update: int
    seconds: float
    model: Path


def checkpoints_of(run: Path) -> list[StoredCheckpoint]:
    """The complete checkpoints of a run, in order of updates."""
    from actfirst.models.manifest import is_complete

    found = []
    for path in (run / CHECKPOINTS).glob("step-*"):
        name = _STEP.fullmatch(path.name)
        if name is not None and is_complete(path):
            found.append(StoredCheckpoint(int(name[1]), _training_seconds(path), path / "model"))
    return sorted(found, key=lambda one: one.update)


def evaluation_file(run: Path, update: int) -> Path:
    return run / EVALUATIONS / f"update-{update:06d}.json"


def evaluate_checkpoints(
    run: Path, settings: Callable[[bool], list[str]], told: Callable[[int, int, int], None]
) -> None:
    """Evaluate what is not evaluated yet; `settings(final)` are overrides for a checkpoint, `told` hears of the
    update, the episodes done and all of them."""
    import asyncio

    from actfirst.config.load import resolve
    from actfirst.evaluate.model import evaluate_model, evaluation_fields

    stored_ones = checkpoints_of(run)
    for checkpoint in stored_ones:
        path = evaluation_file(run, checkpoint.update)
        if path.exists():
            continue
        config = resolve(run / CONFIG, settings(checkpoint == stored_ones[-1]))

        def tell(done: int, of: int, update: int = checkpoint.update) -> None:
            told(update, done, of)

        result = asyncio.run(evaluate_model(config, checkpoint.model, tell))
        fields = evaluation_fields(config, run.name, CONFIG, "think", result)
        times = {"update": checkpoint.update, "training_seconds": checkpoint.seconds}
        stored.store(path, stored.EVALUATION, {**fields, **times})


def stored_evaluations(run: Path) -> list[EvaluationLine]:
    """The evaluations of a run's checkpoints, as lines beside those that it wrote itself."""
    lines = []
    for path in sorted((run / EVALUATIONS).glob("update-*.json")):
        if _EVALUATION.fullmatch(path.name):
            found = read_evaluation(path)
            success = found.result.overall.success_rate
            lines.append(
                EvaluationLine(
                    who="student",
                    update=found.update or 0,
                    training_seconds=found.training_seconds or 0.0,
                    success_rate=success.mean,
                    deviation=success.deviation,
                    result=found.result,
                )
            )
    return lines


def _training_seconds(checkpoint: Path) -> float:
    path = checkpoint / "training" / "state.json"
    try:
        state = json.loads(path.read_text(encoding="utf-8"))["trainer"]
        return float(state["elapsed"]) - float(state["seconds"].get("evaluation", 0.0))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{path} does not say how long training had taken ({error})") from error
