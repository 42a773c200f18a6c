"""A run small enough for tests: random tiny models on pocket houses."""

from __future__ import annotations

from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.load import resolve
from tests.support.tiny_models import make_tiny_checkpoint

OVERRIDES = (
    "environment.turn_limit=4",
    "environment.train_tasks=40",
    "environment.eval_tasks=6",
    "rollout.tasks_per_batch=4",
    "rollout.generation.prompt_limit=1400",
    "rollout.generation.first_stage=10",
    "rollout.generation.response_limit=48",
    "rollout.generation.continuation=8",
    "rollout.generation.fast_limit=8",
    "learner.batch_size=8",
    "learner.learning_rate=1e-3",
    "learner.threads=1",
    "engine.threads=1",
    "teacher.threads=1",
    "evaluation.at_start=false",
    "evaluation.at_end=false",
    "evaluation.every=0",
    "evaluation.teacher=false",
    "evaluation.splits=['seen']",
    "evaluation.tasks_per_split=4",
    "evaluation.generation.prompt_limit=1400",
    "evaluation.generation.first_stage=10",
    "evaluation.generation.response_limit=48",
    "evaluation.generation.continuation=8",
    "checkpoint.every=2",
)


def overrides(folder: Path, *more: str) -> list[str]:
    """Dotted overrides of the pocket recipe; makes the two models where they are not there yet."""
    for name, seed in (("student", 1), ("teacher", 2)):
        if not (folder / name).exists():
            make_tiny_checkpoint(folder / name, seed=seed)
    return [*OVERRIDES, f"models.student={folder / 'student'}", f"models.teacher={folder / 'teacher'}", *more]


def tiny_config(folder: Path, *more: str) -> Config:
    return resolve("pocket", overrides(folder, *more))


def world_config(folder: Path, table: str, *more: str) -> Config:
    """ActFirst-OPD in a world with the splits train and test, where nobody has demonstrated anything."""
    given = [one for one in overrides(folder) if not one.startswith(("environment.", "evaluation.splits"))]
    here = (
        "evaluation.splits=['test']",
        "references.source=rollouts",
        "run.updates=2",
        "evaluation.at_end=true",
    )
    return resolve("pocket", [*given, f"environment={{{table}}}", *here, *more])
