"""Puts a run together from its parts, wherever they run, and finds where a stopped run stands."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actfirst.engines.base import Engine
from actfirst.errors import CheckpointError
from actfirst.methods.acting import Policy, TrainingPoint
from actfirst.methods.table import METHODS, ResponseTiming, method_of
from actfirst.rollout.buffer import Ledger, SampleBuffer
from actfirst.rollout.collect import Collector
from actfirst.rollout.pacing import Pacer
from actfirst.rollout.scoring import EngineTeacher
from actfirst.rollout.stream import RolloutStream
from actfirst.runs.run_folder import RunFolder
from actfirst.runs.sinks import open_sinks
from actfirst.training.clock import StageClock
from actfirst.training.prepare import Prepared
from actfirst.training.run import Evaluations, Training, TrainingLearner
from actfirst.training.start_up import prove_parts
from actfirst.training.stored_state import StoredState
from actfirst.training.watch import Watcher

if TYPE_CHECKING:
    from actfirst.learning.checkpoint import Checkpoint


@dataclass(frozen=True)
class Crew:
    """The parts that compute, as a runtime opened them, and how to let them go."""

    learner: TrainingLearner
    engine: Engine
    teacher: Engine
    shut_down: Callable[[], Awaitable[None]]


def assemble(
    parts: Prepared, folder: RunFolder, watcher: Watcher, state: StoredState, crew: Crew, begun: float
) -> Training:
    """The run as `state` left it, with everything that the loop calls."""
    config, stage, learner = parts.config, parts.stage, crew.learner
    acting = stage.policy(crew.engine, parts.encoder, config.rollout.generation)
    folder.log(f"started at update {learner.version} of {config.run.updates}")
    clock = StageClock(state.seconds, state.elapsed, begun)
    buffer = SampleBuffer(config.learner.max_version_lag, Ledger.of(state.ledger), state.samples)

    return Training(
        config=config,
        title=f"{METHODS[config.rollout.method].title} on {stage.world.name}",
        folder=folder,
        learner=learner,
        engine=crew.engine,
        teacher_engine=crew.teacher,
        buffer=buffer,
        rollouts=RolloutStream(
            open_collector(parts, acting, EngineTeacher(crew.teacher), lambda: clock.training),
            parts.order,
            lambda index: TrainingPoint(index, learner.version, config.run.updates),
            overlap=config.rollout.overlap,
            delivered=state.delivered,
            expected_contexts=state.expected_contexts,
            probe=state.probe,
            on_episode=watcher.episode,
            outlook=lambda arrived: buffer.outlook(
                arrived, config.learner.batch_size, learner.version, config.run.updates
            ),
        ),
        evaluations=Evaluations(
            parts.evaluated,
            stage.player(
                stage.policy(crew.engine, parts.encoder, config.evaluation.generation), config.pool.retries
            ),
            stage.player(
                stage.policy(crew.teacher, parts.encoder, config.evaluation.generation), config.pool.retries
            ),
        ),
        clock=clock,
        watcher=watcher,
        sinks=open_sinks(config.tracking.sinks, folder.path),
        prove=lambda: prove_parts(config, parts.student, acting, crew.teacher),
        shut_down=crew.shut_down,
        history=list(state.evaluations),
    )


def stored_state(folder: RunFolder) -> tuple[StoredState, Checkpoint | None]:
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
        return StoredState.start(), None
    stored = found.checkpoint
    return StoredState.of(stored.trainer_state, stored.samples, str(stored.path)), stored


def open_collector(
    parts: Prepared, acting: Policy, teacher: EngineTeacher, now: Callable[[], float]
) -> Collector:
    config = parts.config
    method = method_of(config.rollout.method, config.methods)
    admitted = method.responses is ResponseTiming.DEFERRED and config.rollout.responses == "admitted"
    # Responses of one version serve as many updates as the lag allows; a batch that was collected during an
    # update is already one version old when it arrives.
    fresh_updates = config.learner.max_version_lag + (0 if config.rollout.overlap else 1)
    cap = config.engine.max_concurrency * config.runtime.rollout_engines
    return Collector(
        method=method,
        player=parts.stage.player(acting, config.pool.retries, parts.references),
        teacher=teacher,
        seed=config.run.seed,
        budget=config.learner.batch_size * max(1, fresh_updates) if admitted else None,
        now=now,
        pacer=Pacer(cap) if config.rollout.pacing else None,
    )
