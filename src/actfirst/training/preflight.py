"""What a recipe needs, looked for before anything starts: every model, folder, file, interpreter and package it names.

All faults at once, and nothing is downloaded or opened for use: for `actfirst train --dry-run` and `actfirst doctor`.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from actfirst.config.config import Config
from actfirst.errors import ActfirstError, ConfigError
from actfirst.evaluate.protocol import choose_tasks
from actfirst.methods.table import method_of, needs_teacher
from actfirst.models.folder import check_model, trained_model
from actfirst.models.hub import pinned
from actfirst.rollout.stage import open_references, open_stage
from actfirst.runs.sinks import check_sinks
from actfirst.training.devices import check_devices
from actfirst.training.proofs import check_installed, check_limits, check_tokenizers


def pin_models(config: Config) -> Config:
    """The same configuration with the commits of models that come from the hub, and the checkpoints of those that are
    runs: both may have newer ones when this run is resumed."""
    models = config.models
    asked = {"student": models.student}
    if needs_teacher(config) and config.teacher.kind != "server":
        asked["teacher"] = models.teacher
    names = {who: pinned(trained_model(name, f"models.{who}"), f"models.{who}") for who, name in asked.items()}
    return config.model_copy(update={"models": models.model_copy(update=names)})


def faults(config: Config) -> list[str]:
    """What is missing or does not fit, one message each; empty if a run can begin."""
    found: list[str] = []
    checks: list[Callable[[Config], None]] = [
        _models,
        check_installed,
        check_devices,
        _tracking,
        _interpreter,
        _world,
    ]
    for check in checks:
        try:
            check(config)
        except ActfirstError as error:
            found.append(str(error))
    return found


def _models(config: Config) -> None:
    asked = needs_teacher(config) and config.teacher.kind != "server"
    student, teacher, missing = None, None, []
    try:
        student = check_model(config.models.student, "models.student")
    except ConfigError as error:
        missing.append(str(error))
    try:
        teacher = check_model(config.models.teacher, "models.teacher") if asked else None
    except ConfigError as error:
        missing.append(str(error))
    if missing:
        raise ConfigError("\n".join(missing))
    if student is not None and teacher is not None:
        check_tokenizers(student, teacher)
    if student is not None:
        check_limits(config, student, teacher)


def _tracking(config: Config) -> None:
    check_sinks(config.tracking.sinks)


def _interpreter(config: Config) -> None:
    python = config.pool.python
    if python and shutil.which(str(Path(python).expanduser())) is None:
        raise ConfigError(f"pool.python = {python!r}: there is no such program; name an interpreter")


def _world(config: Config) -> None:
    stage = open_stage(config.environment, config.pool)
    stage.world.tasks("train")
    choose_tasks(stage.world, config.evaluation.splits, config.evaluation.tasks_per_split)
    if method_of(config.rollout.method, config.methods).acting.needs_reference:
        open_references(stage, config.references)
