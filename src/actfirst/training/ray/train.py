"""A run on a Ray cluster: the loop of the local runtime, over engines, teachers, learners and environments elsewhere.

The driver is this process: it renders prompts, keeps the buffer and writes the run folder. When a learner is lost,
the run is built again from its last checkpoint, over the engines that are there.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.load import dump_toml
from actfirst.engines.base import Engine
from actfirst.errors import LearnerLost
from actfirst.rollout.together import together
from actfirst.runs.lines import Summary
from actfirst.runs.run_folder import RunFolder
from actfirst.training import loop
from actfirst.training.assemble import Crew, assemble, stored_state
from actfirst.training.parts import open_teacher
from actfirst.training.prepare import Prepared, prepare
from actfirst.training.ray.cluster import Demands, cluster
from actfirst.training.ray.environments import RayPool
from actfirst.training.ray.fleet import Fleet
from actfirst.training.ray.learner import RayLearner
from actfirst.training.ray.start import make_fleet, make_learner, make_pool
from actfirst.training.watch import Watcher


def train(config: Config, folder: Path, *, resume: bool = False, watcher: Watcher | None = None) -> Summary:
    """Train to the end (or from where a killed run stands) and return the summary."""
    return asyncio.run(RayRun(config, folder.absolute(), watcher or Watcher()).train(resume))


@dataclass
class RayRun:
    """One run. Its actors can be looked at from outside while it trains."""

    config: Config
    folder: Path
    watcher: Watcher
    engines: Fleet | None = None
    teachers: Engine | None = None
    pool: RayPool | None = None
    learner: RayLearner | None = None
    lost_learners: int = 0
    carried: float | None = None

    async def train(self, resume: bool) -> Summary:
        begun = time.monotonic()
        parts = prepare(self.config)
        parts = replace(parts, student=parts.student.absolute())  # processes elsewhere stand elsewhere
        wanted = Demands.of(self.config)
        with cluster(self.config.runtime, wanted):
            async with AsyncExitStack() as opened:
                begin = RunFolder.open if resume else RunFolder.create
                folder = begin(self.folder, dump_toml(self.config))
                opened.callback(folder.close)
                parts = await self._open(parts, wanted, opened)
                return await self._persist(parts, folder, begun)

    async def _open(self, parts: Prepared, wanted: Demands, opened: AsyncExitStack) -> Prepared:
        """Start everything but the learner. What is opened is closed by `opened`."""
        config = self.config
        # From the student also when a run is resumed: replacements need a folder that nobody prunes. The learner's
        # weights come before the first request.
        deadline = config.runtime.request_seconds
        self.engines = make_fleet(wanted.engine, config.engine, parts.student, request_seconds=deadline)
        opened.push_async_callback(self.engines.close)
        starting = [self.engines.open()]
        if parts.teacher is None:
            self.teachers = open_teacher(config)
        else:
            self.teachers = teachers = make_fleet(
                wanted.teacher, config.teacher, parts.teacher, request_seconds=deadline
            )
            starting.append(teachers.open())
        opened.push_async_callback(self.teachers.close)
        if config.runtime.environment_workers:
            self.pool = make_pool(wanted.environment, config)
            parts = replace(parts, stage=replace(parts.stage, pool=self.pool))
        opened.push_async_callback(parts.stage.pool.close)
        await together(starting)
        return parts

    async def _persist(self, parts: Prepared, folder: RunFolder, begun: float) -> Summary:
        """Train; as often as a learner is lost, go on from the last checkpoint."""
        reached, in_a_row = -1, 0
        while True:
            try:
                return await self._attempt(parts, folder, begun)
            except LearnerLost as error:
                version = self.learner.version if self.learner else 0
                in_a_row = in_a_row + 1 if version <= reached else 1
                reached = max(reached, version)
                self.lost_learners += 1
                if in_a_row > self.config.runtime.restarts:
                    raise
                folder.close()
                folder = RunFolder.open(self.folder)
                folder.log(f"{error}; going on from the last checkpoint")

    async def _attempt(self, parts: Prepared, folder: RunFolder, begun: float) -> Summary:
        assert self.engines is not None
        assert self.teachers is not None
        state, checkpoint = stored_state(folder)
        folder.rewind(state.offsets)
        if self.carried is None:
            self.carried = state.elapsed
        state = state.model_copy(
            update={"elapsed": self.carried}
        )  # what a lost learner had done took time, too
        learner = self.learner = make_learner(self.config, folder.checkpoints)
        try:
            await learner.open(parts.student, checkpoint.path if checkpoint else None)
            if checkpoint is not None or self.lost_learners:  # the engines have other weights
                await self.engines.load_weights(learner.weights(), learner.version)
        except BaseException:
            await learner.close()
            raise
        crew = Crew(learner, self.engines, self.teachers, learner.close)
        return await loop.train(assemble(parts, folder, self.watcher, state, crew, begun))
