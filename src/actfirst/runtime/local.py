"""The local runtime: every part of a run in this process, each busy part in a thread of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from actfirst.acting import Policy, Progress
from actfirst.config.load import dump_toml
from actfirst.config.models import Config
from actfirst.evaluate.protocol import Evaluator, choose_tasks
from actfirst.methods import METHODS, ResponseTiming
from actfirst.records import TurnSample, UpdateStats
from actfirst.references.base import NoReferences
from actfirst.rollout.collect import Collector
from actfirst.runtime import loop
from actfirst.runtime.buffer import SampleBuffer
from actfirst.runtime.clock import StageClock
from actfirst.runtime.model_folder import resolve_model
from actfirst.runtime.parts import (
    Stage,
    open_encoder,
    open_engine,
    open_references,
    open_stage,
    quiet_libraries,
)
from actfirst.runtime.rollouts import RolloutStream
from actfirst.runtime.start_up import check_limits, check_tokenizers, prove_scoring
from actfirst.runtime.stored_state import StoredState
from actfirst.runtime.task_order import TaskOrder
from actfirst.runtime.training import Evaluations, Training
from actfirst.runtime.watch import Unwatched, Watcher
from actfirst.teacher.scoring import EngineTeacher
from actfirst.tracking.run_folder import RunFolder
from actfirst.tracking.sinks import open_sinks

Result = TypeVar("Result")

if TYPE_CHECKING:
    import torch

    from actfirst.learning.checkpoint import Checkpoint
    from actfirst.learning.update import Learner


def train(
    config: Config, folder: Path, *, resume: bool = False, watcher: Watcher | None = None
) -> dict[str, object]:
    """Train to the end (or from where a killed run stands) and return the summary."""
    return asyncio.run(_train(config, folder, resume, watcher or Unwatched()))


async def _train(config: Config, folder: Path, resume: bool, watcher: Watcher) -> dict[str, object]:
    models = _checked_models(config)  # before a folder is made: a refused run leaves nothing behind
    run_folder = RunFolder.open(folder) if resume else RunFolder.create(folder, dump_toml(config))
    try:
        run = build(config, models, run_folder, watcher)
    except BaseException:
        run_folder.close()
        raise
    return await loop.train(run)


def _checked_models(config: Config) -> tuple[Path, Path]:
    """The folders of student and teacher, which fit each other and the limits."""
    quiet_libraries()
    student = resolve_model(config.models.student, "models.student")
    teacher = resolve_model(config.models.teacher, "models.teacher")
    check_tokenizers(student, teacher)
    check_limits(config, student, teacher)
    return student, teacher


def build(config: Config, models: tuple[Path, Path], folder: RunFolder, watcher: Watcher) -> Training:
    """All parts of a run, as the folder's newest valid checkpoint left them, or new."""
    student, teacher = models
    state, checkpoint = _stored_state(folder)
    folder.rewind(state.offsets)
    learner = _open_learner(config, student, checkpoint, folder)
    engine = open_engine(config.engine, checkpoint.model if checkpoint else student, learner.version)
    teacher_engine = open_engine(config.teacher, teacher)
    stage, encoder, method = (
        open_stage(config.environment),
        open_encoder(student),
        METHODS[config.rollout.method],
    )
    acting = stage.policy(engine, encoder, config.rollout.generation)
    rollouts = RolloutStream(
        _collector(config, stage, acting, EngineTeacher(teacher_engine)),
        TaskOrder(tuple(stage.world.tasks("train")), config.rollout.tasks_per_batch, config.run.seed),
        lambda index: Progress(index, learner.version, config.run.updates),
        overlap=config.rollout.overlap,
        delivered=state.delivered,
        expected_contexts=state.expected_contexts,
        on_episode=watcher.episode,
    )
    settings = config.evaluation

    async def shut_down() -> None:
        await engine.close()
        await teacher_engine.close()
        await stage.pool.close()
        learner.close()

    return Training(
        config=config,
        title=f"{method.title} on {stage.world.name}",
        folder=folder,
        learner=learner,
        engine=engine,
        teacher_engine=teacher_engine,
        buffer=SampleBuffer(config.learner.max_version_lag, state.ledger, state.samples),
        rollouts=rollouts,
        evaluations=Evaluations(
            Evaluator(stage.pool, stage.rules, stage.world.turn_limit, settings.batch_tasks),
            choose_tasks(stage.world, settings.splits, settings.tasks_per_split),
            stage.policy(engine, encoder, settings.generation),
            stage.policy(teacher_engine, encoder, settings.generation),
        ),
        clock=StageClock(state.seconds),
        watcher=watcher,
        sinks=open_sinks(config.tracking.sinks, folder.path),
        prove=lambda: prove_scoring(acting, teacher_engine, config.engine.dtype),
        shut_down=shut_down,
        history=list(state.evaluations),
    )


def _collector(config: Config, stage: Stage, acting: Policy, teacher: EngineTeacher) -> Collector:
    method = METHODS[config.rollout.method]
    admitted = method.responses is ResponseTiming.DEFERRED and config.rollout.responses == "admitted"
    # Responses of one version serve as many updates as the lag allows; a batch that was collected during an
    # update is already one version old when it arrives.
    fresh_updates = config.learner.max_version_lag + (0 if config.rollout.overlap else 1)
    return Collector(
        method=method,
        policy=acting,
        teacher=teacher,
        pool=stage.pool,
        rules=stage.rules,
        references=(
            open_references(stage, config.references) if method.acting.needs_reference else NoReferences()
        ),
        turn_limit=stage.world.turn_limit,
        seed=config.run.seed,
        budget=config.learner.batch_size * max(1, fresh_updates) if admitted else None,
    )


def _stored_state(folder: RunFolder) -> tuple[StoredState, Checkpoint | None]:
    """The newest checkpoint that is whole; why newer ones were passed over goes to the log."""
    from actfirst.learning.checkpoint import latest_valid

    found = latest_valid(folder.checkpoints)
    for reason in found.rejected:
        folder.log(f"passed over a broken checkpoint: {reason}")
    if found.checkpoint is None:
        return StoredState(), None
    stored = found.checkpoint
    return StoredState.of(stored.trainer_state, stored.samples, str(stored.path)), stored


def _open_learner(
    config: Config, student: Path, checkpoint: Checkpoint | None, folder: RunFolder
) -> _LocalLearner:
    from actfirst.learning.loss import LossConfig
    from actfirst.learning.rng import restore_rng
    from actfirst.learning.update import Learner, LearnerOptions

    settings = config.learner
    options = LearnerOptions(
        lr=settings.learning_rate,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        grad_clip=settings.grad_clip,
        token_budget=settings.token_budget,
        precision=settings.precision,
        loss=LossConfig(clip=settings.clip, dual_clip=settings.dual_clip),
        threads=settings.threads,
    )
    learner = Learner(student, options)
    if checkpoint is not None:
        learner.restore(checkpoint.learner)
        restore_rng(checkpoint.rng)
    return _LocalLearner(learner, folder.checkpoints)


class _LocalLearner:
    """The learner in a thread of its own, so that rollouts go on while it updates."""

    def __init__(self, learner: Learner, checkpoints: Path) -> None:
        self._learner = learner
        self._checkpoints = checkpoints
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="learner")

    @property
    def version(self) -> int:
        return self._learner.version

    async def update(self, samples: Sequence[TurnSample]) -> UpdateStats:
        return await self._run(lambda: self._learner.update(samples))

    def weights(self) -> Mapping[str, torch.Tensor]:
        return self._learner.weights()

    async def save(self, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], keep: int) -> None:
        from actfirst.learning.checkpoint import prune, save

        def write() -> None:
            save(self._checkpoints, self._learner, samples, trainer_state)
            prune(self._checkpoints, keep)

        await self._run(write)

    def close(self) -> None:
        self._thread.shutdown()

    async def _run(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
