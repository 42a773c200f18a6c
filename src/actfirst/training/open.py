"""Opens a run and trains it: everything between a recipe and the loop, in the order in which it happens.

    open_training  what a run is made of (`parts.py`), and the run folder
    OpenedRun      the learner as the newest whole checkpoint left it, and all of it put together for the loop

The driver is always this process: it keeps the buffer and writes the run folder, and it plays the rollouts unless
rollout drivers do.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.config.config import Config
from actfirst.config.load import dump_toml
from actfirst.engines.base import Engine
from actfirst.errors import ActfirstError, CheckpointError, LearnerLost, RunStopped
from actfirst.learning.checkpoint import Checkpoint, latest_valid, remove_unfinished
from actfirst.methods.acting import TrainingPoint
from actfirst.methods.table import METHODS, method_of
from actfirst.references.rollouts import RolloutReferences
from actfirst.rollout.buffer import Ledger, SampleBuffer
from actfirst.rollout.play import Player
from actfirst.rollout.scoring import EngineTeacher
from actfirst.rollout.stream import RolloutStream
from actfirst.runs import files
from actfirst.runs.lines import Summary
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import CHECKPOINTS, SUMMARY, RunFolder
from actfirst.runs.sinks import Tracked, open_sinks
from actfirst.runs.utilisation import UtilisationLine
from actfirst.training import loop
from actfirst.training.arrival import Arrival, Scores
from actfirst.training.checkpoints import Checkpoints
from actfirst.training.clock import START_UP, StageClock
from actfirst.training.parts import Found, find_parts, open_collector, open_parts
from actfirst.training.preflight import pin_models
from actfirst.training.proofs import prove_parts
from actfirst.training.run import Evaluations, Training, TrainingLearner
from actfirst.training.stopping import Stop
from actfirst.training.stored_state import StoredState
from actfirst.training.storing import Storing
from actfirst.training.utilisation import Utilisation
from actfirst.training.watch import Watcher

if TYPE_CHECKING:
    from actfirst.training.local import LocalLearner
    from actfirst.training.ray.drivers import Drivers
    from actfirst.training.ray.learner import RayLearner


def train(config: Config, folder: Path, *, resume: bool = False, watcher: Watcher | None = None) -> Summary:
    """Train where the recipe says, to the end or from where a stopped run stands; returns the summary."""

    watcher = watcher or Watcher()
    if resume and (stored := _finished(config, folder)):
        watcher.finished(stored)
        return stored

    async def to_the_end() -> tuple[Summary, float]:
        stop = Stop()
        stop.on_signals()
        try:
            async with open_training(config, folder, resume=resume, watcher=watcher, stop=stop) as run:
                stop.on_signals()  # Ray has taken them
                stop.opened()
                return await run.train(), time.monotonic()
        except asyncio.CancelledError:
            stop.check()
            raise

    summary, ended = asyncio.run(to_the_end())
    # Ending engines and cluster is part of the process's time, and over only now.
    complete = summary.process_seconds + time.monotonic() - ended
    summary = summary.model_copy(update={"process_seconds": complete})
    files.write_json(folder / SUMMARY, summary.to_json())
    return summary


def _finished(config: Config, folder: Path) -> Summary | None:
    """The summary of a run that has nothing left to do: opening it again would only make it older."""
    run = open_run(folder)
    if not run.finished or run.summary.updates < config.run.updates:
        return None
    newest = latest_valid(folder / CHECKPOINTS)
    whole = newest.checkpoint is not None and newest.checkpoint.step == run.summary.updates
    return run.summary if whole else None


@asynccontextmanager
async def open_training(
    config: Config, folder: Path, *, resume: bool, watcher: Watcher, stop: Stop | None = None
) -> AsyncIterator[OpenedRun]:
    """A run with all its parts but the learner; what is opened is closed at the end. A new run that fails before it has
    anything to write down leaves no folder."""
    begun = time.monotonic()
    watcher.preparing("looking for models, tasks and references")
    config = pin_models(config)
    found = find_parts(config)
    async with AsyncExitStack() as opened:
        if config.runtime.kind == "ray":
            from actfirst.training.ray.cluster import Demands, cluster

            opened.enter_context(cluster(config.runtime, Demands.of(config)))
        begin = RunFolder.open if resume else RunFolder.create
        run_folder = begin(folder, dump_toml(config))
        opened.push(partial(_leave_no_empty_folder, run_folder, resume))
        watcher.preparing("opening engines and environments")
        engine, teacher, pool = await open_parts(found, opened)
        found = replace(found, stage=replace(found.stage, pool=pool))
        run = OpenedRun(found, run_folder, watcher, engine, teacher, begun, stop or Stop())
        if config.runtime.rollout_drivers:
            from actfirst.training.ray.drivers import start_drivers

            run.drivers = start_drivers(config, found.student, engine, run.scorer)
            opened.push_async_callback(run.drivers.close)
        opened.callback(lambda: run.folder.close())
        yield run


def _leave_no_empty_folder(
    folder: RunFolder, resumed: bool, kind: type[BaseException] | None, *_: object
) -> bool:
    failed = kind is not None and issubclass(kind, ActfirstError) and not issubclass(kind, RunStopped)
    folder.close()
    if failed and not resumed and folder.is_bare():
        folder.remove()
    return False


@dataclass
class OpenedRun:
    """A run that can be trained. Its parts can be looked at from outside meanwhile."""

    found: Found
    folder: RunFolder
    watcher: Watcher
    engine: Engine
    teacher: Engine
    begun: float
    stop: Stop
    drivers: Drivers | None = None
    learner: TrainingLearner | None = None
    lost_learners: int = 0
    carried: dict[str, float] | None = None

    async def train(self) -> Summary:
        """Train to the end; as often as a learner is lost, go on from the last checkpoint."""
        reached, in_a_row = -1, 0
        while True:
            try:
                return await loop.train(await self.training())
            except LearnerLost as error:
                version = self.learner.version if self.learner else 0
                in_a_row = in_a_row + 1 if version <= reached else 1
                reached = max(reached, version)
                self.lost_learners += 1
                if in_a_row > self.found.config.runtime.restarts:
                    raise
                self.folder.close()
                self.folder = RunFolder.open(self.folder.path)
                self.folder.log(f"{error}; going on from the last checkpoint")

    async def training(self) -> Training:
        """The run as its newest whole checkpoint left it, or new."""
        state, checkpoint = stored_state(self.folder)
        self.folder.rewind(state.offsets)
        if self.carried is None:
            self.carried = {"elapsed": state.elapsed, "process_seconds": state.process_seconds}
        # What a lost learner had done took time, too.
        state = state.model_copy(update=self.carried)
        learner = self.learner = start_learner(self.found.config, self.found.student, self.folder.checkpoints)
        try:
            await learner.open(checkpoint)
            # Engines begin with the student also when a run is resumed: on Ray, those that replace lost ones need a
            # folder that nobody prunes.
            if checkpoint is not None or self.lost_learners:
                await self.engine.load_weights(learner.weights(), learner.version)
            return self._put_together(state, learner)
        except BaseException:
            await learner.close()
            raise

    @property
    def scorer(self) -> EngineTeacher:
        settings = self.found.config.run
        return EngineTeacher(self.teacher, settings.keep_alternatives if settings.keep_responses else 0)

    def scores(self) -> Scores:
        """How every engine is asked for log-probs."""
        if self.found.config.runtime.kind == "ray":
            from actfirst.training.ray.fleet import Fleet

            if isinstance(self.engine, Fleet):
                return self.engine.score_everywhere

        async def here(prompt_ids: Sequence[int], token_ids: Sequence[int]) -> dict[str, tuple[float, ...]]:
            return {"the student's engine": await self.engine.score(prompt_ids, token_ids)}

        return here

    def _put_together(self, state: StoredState, learner: TrainingLearner) -> Training:
        found, config, stage = self.found, self.found.config, self.found.stage
        acting = stage.policy(self.engine, found.encoder, config.rollout.generation)

        def evaluating(engine: Engine) -> Player:
            policy = stage.policy(engine, found.encoder, config.evaluation.generation)
            return stage.player(policy, config.pool.retries)

        self.folder.log(f"started at update {learner.version} of {config.run.updates}")
        clock = StageClock(state.seconds, state.elapsed, self.begun, state.process_seconds)
        if not self.lost_learners:
            clock.count(START_UP, time.monotonic() - self.begun)

        def utilised(line: UtilisationLine) -> None:
            self.folder.append_utilisation(line)
            self.watcher.utilised(line)

        objective = method_of(config.rollout.method, config.methods).objective
        buffer = SampleBuffer(
            config.learner.max_version_lag,
            Ledger.of(state.ledger),
            state.samples,
            whole=config.learner.whole_batches,
        )
        if isinstance(found.references, RolloutReferences):
            found.references.restore(state.references)
        return Training(
            config=config,
            title=f"{METHODS[config.rollout.method].title} on {stage.world.name}",
            folder=self.folder,
            learner=learner,
            engine=self.engine,
            teacher_engine=self.teacher,
            buffer=buffer,
            rollouts=RolloutStream(
                open_collector(
                    found,
                    acting,
                    self.scorer,
                    lambda: clock.training,
                    self.drivers.begin if self.drivers else None,
                ),
                found.order,
                lambda index: TrainingPoint(index, learner.version, config.run.updates),
                overlap=config.rollout.overlap,
                delivered=state.delivered,
                expected_contexts=state.expected_contexts,
                probe=state.probe,
                on_episode=self.watcher.episode,
                outlook=lambda arrived: buffer.outlook(
                    arrived, config.learner.batch_size, learner.version, config.run.updates
                ),
            ),
            evaluations=Evaluations(
                found.evaluated, found.evaluated_first, evaluating(self.engine), evaluating(self.teacher)
            ),
            clock=clock,
            watcher=self.watcher,
            sinks=open_sinks(config.tracking.sinks, tracked(config, self.folder.path)),
            prove=lambda: prove_parts(
                config,
                found.student,
                stage.player(acting, config.pool.retries, found.references),
                found.order.tasks,
                self.teacher,
                self.folder.log,
            ),
            utilisation=Utilisation(lambda: clock.training, utilised),
            stop=self.stop,
            storing=Storing(self.folder, config.run, found.encoder.texts, objective.teacher_logprobs),
            checkpoints=Checkpoints(learner, config.checkpoint, clock, self.folder.log, learner.version),
            arrival=Arrival(config, learner, self.scores()),
            history=list(state.evaluations),
        )


def tracked(config: Config, folder: Path) -> Tracked:
    """The run as metric services know it."""
    settings = config.tracking
    return Tracked(folder, settings.project, settings.name or folder.name, config.model_dump(mode="json"))


def start_learner(config: Config, student: Path, checkpoints: Path) -> LocalLearner | RayLearner:
    """The learner where the recipe says, not opened yet."""
    sync = {"adapter_sync": "alone" if config.adapters_alone else "merged"}
    config = config.model_copy(update={"learner": config.learner.model_copy(update=sync)})
    if config.runtime.kind == "local":
        from actfirst.training.local import LocalLearner

        return LocalLearner(student, config.learner, checkpoints)
    from actfirst.training.ray.learner import start_learner

    return start_learner(student, config, checkpoints)


def stored_state(folder: RunFolder) -> tuple[StoredState, Checkpoint | None]:
    """The newest checkpoint that is whole; why newer ones were passed over goes to the log."""
    remove_unfinished(folder.checkpoints)
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
