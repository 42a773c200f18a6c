"""The local runtime: every part of a run in this process, each busy part in a thread of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from actfirst.acting import Policy, Progress
from actfirst.config.load import dump_toml
from actfirst.config.models import Config
from actfirst.engines.base import Engine
from actfirst.errors import CheckpointError
from actfirst.evaluate.protocol import Evaluator
from actfirst.methods import METHODS, ResponseTiming
from actfirst.records import TurnSample, UpdateStats
from actfirst.rollout.collect import Collector
from actfirst.runtime import loop
from actfirst.runtime.buffer import SampleBuffer
from actfirst.runtime.clock import StageClock
from actfirst.runtime.parts import open_engine
from actfirst.runtime.prepare import Prepared, prepare
from actfirst.runtime.rollouts import RolloutStream
from actfirst.runtime.start_up import prove_scoring
from actfirst.runtime.stored_state import StoredState
from actfirst.runtime.training import Evaluations, Training
from actfirst.runtime.watch import Unwatched, Watcher
from actfirst.teacher.scoring import EngineTeacher
from actfirst.tracking.run_folder import RunFolder
from actfirst.tracking.sinks import open_sinks

if TYPE_CHECKING:
    import torch

    from actfirst.learning.checkpoint import Checkpoint
    from actfirst.learning.update import Learner

Result = TypeVar("Result")


def train(
    config: Config, folder: Path, *, resume: bool = False, watcher: Watcher | None = None
) -> dict[str, object]:
    """Train to the end (or from where a killed run stands) and return the summary."""
    return asyncio.run(_train(config, folder, resume, watcher or Unwatched()))


async def _train(config: Config, folder: Path, resume: bool, watcher: Watcher) -> dict[str, object]:
    begun = time.monotonic()
    parts = prepare(config)
    run_folder = RunFolder.open(folder) if resume else RunFolder.create(folder, dump_toml(config))
    opened: list[Engine] = []
    try:
        run = build(parts, run_folder, watcher, opened, begun)
    except BaseException:
        for engine in opened:
            await engine.close()
        run_folder.close()
        raise
    return await loop.train(run)


def build(parts: Prepared, folder: RunFolder, watcher: Watcher, opened: list[Engine], begun: float) -> Training:
    """The run as the folder's newest valid checkpoint left it, or new. Engines are listed in `opened` at once."""
    config, stage = parts.config, parts.stage
    state, checkpoint = _stored_state(folder)
    folder.rewind(state.offsets)
    learner = _open_learner(config, parts.student, checkpoint, folder)
    model = checkpoint.model if checkpoint else parts.student
    opened.append(engine := open_engine(config.engine, model, learner.version))
    opened.append(teacher := open_engine(config.teacher, parts.teacher))
    acting = stage.policy(engine, parts.encoder, config.rollout.generation)
    folder.log(f"started at update {learner.version} of {config.run.updates}")

    async def shut_down() -> None:
        await engine.close()
        await teacher.close()
        await stage.pool.close()
        learner.close()

    return Training(
        config=config,
        title=f"{METHODS[config.rollout.method].title} on {stage.world.name}",
        folder=folder,
        learner=learner,
        engine=engine,
        teacher_engine=teacher,
        buffer=SampleBuffer(config.learner.max_version_lag, state.ledger, state.samples),
        rollouts=RolloutStream(
            _collector(parts, acting, EngineTeacher(teacher)),
            parts.order,
            lambda index: Progress(index, learner.version, config.run.updates),
            overlap=config.rollout.overlap,
            delivered=state.delivered,
            expected_contexts=state.expected_contexts,
            on_episode=watcher.episode,
        ),
        evaluations=Evaluations(
            Evaluator(stage.pool, stage.rules, stage.world.turn_limit, config.evaluation.batch_tasks),
            parts.evaluated,
            stage.policy(engine, parts.encoder, config.evaluation.generation),
            stage.policy(teacher, parts.encoder, config.evaluation.generation),
        ),
        clock=StageClock(state.seconds, state.elapsed, begun),
        watcher=watcher,
        sinks=open_sinks(config.tracking.sinks, folder.path),
        prove=lambda: prove_scoring(acting, teacher, config.engine.dtype),
        shut_down=shut_down,
        history=list(state.evaluations),
    )


def _collector(parts: Prepared, acting: Policy, teacher: EngineTeacher) -> Collector:
    config, stage = parts.config, parts.stage
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
        references=parts.references,
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
    if found.checkpoint is None and found.rejected:
        raise CheckpointError(
            f"no checkpoint of {folder.path} is whole ({found.rejected[0]}); start a new run, or remove "
            f"{folder.checkpoints} to begin this one again from update 0"
        )
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
