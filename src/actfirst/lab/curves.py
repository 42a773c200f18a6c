"""Success against training time from stored checkpoints (paper, "Performance-Time Trade-off").

A run that keeps its checkpoints can be evaluated afterwards, with any number of seeds, and its training time is not
disturbed. Each evaluation is a result file in the run's own folder, `evaluations/update-000010.json`; those that are
there with all seeds asked for are not made again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from actfirst.config.load import resolve
from actfirst.lab import stored
from actfirst.runs.record import read_object
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import CONFIG
from actfirst.training import playing


def evaluate_checkpoints(
    folder: Path, settings: Callable[[bool], list[str]], told: Callable[[int, int, int], None]
) -> None:
    """Evaluate what is not evaluated yet; `settings(final)` are overrides for a checkpoint, `told` hears of the
    update, the episodes done and all of them. The first update is no point of a curve, which begins with the student
    as it was: its checkpoint is there for rollout quality."""
    run = open_run(folder)
    checkpoints = run.checkpoints()
    for checkpoint in checkpoints:
        if checkpoint.update == 1 and checkpoint != checkpoints[-1]:
            continue
        path = run.evaluation_file(checkpoint.update)
        config = resolve(folder / CONFIG, settings(checkpoint == checkpoints[-1]))
        if path.exists() and set(config.evaluation.seeds) <= set(read_object(path).get("seeds", ())):
            continue

        def tell(done: int, of: int, update: int = checkpoint.update) -> None:
            told(update, done, of)

        result = asyncio.run(playing.evaluate_model(config, checkpoint.model, tell))
        fields = playing.evaluation_fields(config, folder.name, CONFIG, "think", result)
        times = {"update": checkpoint.update, "training_seconds": checkpoint.training_seconds}
        stored.store(path, stored.EVALUATION, {**fields, **times})
