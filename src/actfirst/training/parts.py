"""What a run is made of: found and checked before anything is written, then opened where the runtime has it.

find_parts      what can be refused at once: models, limits, world, splits, references, services
open_parts      engines, teacher and environments: in this process, or as actors of a Ray cluster (`ray/`)
open_collector  what plays a batch of tasks with them
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from actfirst.config.config import Config
from actfirst.engines.base import Engine
from actfirst.engines.open import NoTeacher, open_engine, open_teacher
from actfirst.environments.base import EnvironmentPool
from actfirst.evaluate.protocol import choose_tasks
from actfirst.methods.acting import NextAction, Policy, ThinkThenAct, WithoutReference
from actfirst.methods.table import ResponseTiming, method_of, needs_teacher
from actfirst.models.folder import resolve_model
from actfirst.policy.tokens import PromptEncoder, open_encoder
from actfirst.records import Task
from actfirst.references.base import NoReferences, References
from actfirst.rollout.collect import Collector
from actfirst.rollout.pacing import Pacer
from actfirst.rollout.scoring import EngineTeacher
from actfirst.rollout.share import Begin
from actfirst.rollout.stage import Stage, open_references, open_stage
from actfirst.rollout.task_order import TaskOrder
from actfirst.rollout.together import together
from actfirst.runs.sinks import check_sinks
from actfirst.training.devices import check_devices
from actfirst.training.proofs import check_installed, check_limits, check_tokenizers

_OTHERWISE = {"next_action": NextAction(), "think": ThinkThenAct()}


@dataclass(frozen=True)
class Found:
    """What a run is made of, found and checked, with nothing under way yet. `teacher` is None on a server, and where
    nobody asks one."""

    config: Config
    student: Path
    teacher: Path | None
    encoder: PromptEncoder
    stage: Stage
    references: References
    order: TaskOrder
    evaluated: tuple[Task, ...]
    evaluated_first: tuple[Task, ...]


def find_parts(config: Config) -> Found:
    """Find and check all parts; raises the error that names what is wrong. Nothing is written."""
    check_sinks(config.tracking.sinks)
    student = resolve_model(config.models.student, "models.student")
    check_installed(config)
    check_devices(config)
    # What a server holds is proven when the run begins: it has to be asked.
    asked_here = needs_teacher(config) and config.teacher.kind != "server"
    teacher = resolve_model(config.models.teacher, "models.teacher") if asked_here else None
    if teacher is not None:
        check_tokenizers(student, teacher)
    check_limits(config, student, teacher)
    stage = open_stage(config.environment, config.pool)
    needed = method_of(config.rollout.method, config.methods).acting.needs_reference
    section = config.evaluation

    def evaluated(per_split: int) -> tuple[Task, ...]:
        return tuple(choose_tasks(stage.world, section.splits, per_split))

    return Found(
        config=config,
        student=student,
        teacher=teacher,
        encoder=open_encoder(student),
        stage=stage,
        references=open_references(stage, config.references) if needed else NoReferences(),
        order=TaskOrder(
            tuple(stage.world.tasks("train")),
            config.rollout.tasks_per_batch,
            config.run.seed,
            config.rollout.group_size,
        ),
        evaluated=evaluated(section.tasks_per_split),
        evaluated_first=evaluated(section.start_tasks or section.tasks_per_split),
    )


async def open_parts(found: Found, opened: AsyncExitStack) -> tuple[Engine, Engine, EnvironmentPool]:
    """Engine, teacher and environments; `opened` closes them."""
    where = _open_here if found.config.runtime.kind == "local" else _open_on_ray
    return await where(found, opened)


async def _open_here(found: Found, opened: AsyncExitStack) -> tuple[Engine, Engine, EnvironmentPool]:
    config = found.config
    engine = open_engine(config.engine, found.student, _rank_of_adapters(config))
    opened.push_async_callback(engine.close)
    teacher = open_teacher(config.teacher, config.models.teacher) if needs_teacher(config) else NoTeacher()
    opened.push_async_callback(teacher.close)
    opened.push_async_callback(found.stage.pool.close)
    return engine, teacher, found.stage.pool


async def _open_on_ray(found: Found, opened: AsyncExitStack) -> tuple[Engine, Engine, EnvironmentPool]:
    from actfirst.training.ray.cluster import Demands
    from actfirst.training.ray.environments import start_pool
    from actfirst.training.ray.fleet import Fleet, start_fleet

    config, wanted = found.config, Demands.of(found.config)
    runtime, rank = config.runtime, _rank_of_adapters(config)
    engine = start_fleet(wanted.engine, config.engine, found.student, runtime, rank)
    opened.push_async_callback(engine.close)
    if not needs_teacher(config):
        teacher: Engine = NoTeacher()
    elif found.teacher is None:
        teacher = open_teacher(config.teacher, config.models.teacher)
    else:
        teacher = start_fleet(wanted.teacher, config.teacher, found.teacher, runtime)
    opened.push_async_callback(teacher.close)
    elsewhere = config.runtime.environment_workers > 0
    pool = start_pool(wanted.environment, config) if elsewhere else found.stage.pool
    opened.push_async_callback(pool.close)
    await together(part.open() for part in (engine, teacher) if isinstance(part, Fleet))
    return engine, teacher, pool


def _rank_of_adapters(config: Config) -> int:
    """Of those that engines get alone; 0: they get whole weights."""
    return config.learner.adapter_rank if config.adapters_alone else 0


def open_collector(
    found: Found,
    acting: Policy,
    teacher: EngineTeacher,
    now: Callable[[], float],
    elsewhere: Begin | None = None,
) -> Collector:
    """What plays a batch of tasks and asks the teacher, by the recipe's method; `elsewhere` if others play."""
    config = found.config
    method = method_of(config.rollout.method, config.methods)
    otherwise = _OTHERWISE.get(config.references.otherwise)
    if otherwise is not None and method.acting.needs_reference:
        method = replace(method, acting=WithoutReference(method.acting, otherwise))
    admitted = method.responses is ResponseTiming.DEFERRED and config.rollout.responses == "admitted"
    # Responses of one version serve as many updates as the lag allows; a batch that was collected during an
    # update is already one version old when it arrives.
    fresh_updates = config.learner.max_version_lag + (0 if config.rollout.overlap else 1)
    cap = config.engine.max_concurrency * config.runtime.rollout_engines
    return Collector(
        method=method,
        player=found.stage.player(acting, config.pool.retries, found.references),
        teacher=teacher,
        seed=config.run.seed,
        budget=config.learner.batch_size * max(1, fresh_updates) if admitted else None,
        now=now,
        pacer=Pacer(cap) if config.rollout.pacing else None,
        sample_order=config.rollout.sample_order,
        anchored=config.learner.kl_weight > 0,
        shuffled=config.learner.whole_batches,
        elsewhere=elsewhere,
    )
