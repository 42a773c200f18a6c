"""Everything that can be refused before a run begins: models, limits, world, splits, references, services.

A run that is refused here has written nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from actfirst.config.config import Config
from actfirst.evaluate.protocol import choose_tasks
from actfirst.methods.table import method_of
from actfirst.models.folder import resolve_model
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Task
from actfirst.references.base import NoReferences, References
from actfirst.rollout.task_order import TaskOrder
from actfirst.runs.sinks import check_sinks
from actfirst.training.parts import Stage, open_encoder, open_references, open_stage, quiet_libraries
from actfirst.training.start_up import check_engines, check_limits, check_tokenizers


@dataclass(frozen=True)
class Prepared:
    """What a run is made of, found and checked, with nothing under way yet. `teacher` is None on a server."""

    config: Config
    student: Path
    teacher: Path | None
    encoder: PromptEncoder
    stage: Stage
    references: References
    order: TaskOrder
    evaluated: tuple[Task, ...]


def prepare(config: Config) -> Prepared:
    """Find and check all parts; raises the error that names what is wrong."""
    quiet_libraries()
    check_sinks(config.tracking.sinks)
    student = resolve_model(config.models.student, "models.student")
    check_engines(config)
    # What a server holds is proven when the run begins: it has to be asked.
    served = config.teacher.kind == "server"
    teacher = None if served else resolve_model(config.models.teacher, "models.teacher")
    if teacher is not None:
        check_tokenizers(student, teacher)
    check_limits(config, student, teacher)
    stage = open_stage(config.environment, config.pool)
    needed = method_of(config.rollout.method, config.methods).acting.needs_reference
    return Prepared(
        config=config,
        student=student,
        teacher=teacher,
        encoder=open_encoder(student),
        stage=stage,
        references=open_references(stage, config.references) if needed else NoReferences(),
        order=TaskOrder(tuple(stage.world.tasks("train")), config.rollout.tasks_per_batch, config.run.seed),
        evaluated=tuple(choose_tasks(stage.world, config.evaluation.splits, config.evaluation.tasks_per_split)),
    )
