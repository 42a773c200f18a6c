"""The local runtime: every part of a run in this process, each busy part in a thread of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from actfirst.config.config import Config
from actfirst.config.load import dump_toml
from actfirst.engines.base import Engine
from actfirst.records import TurnSample, UpdateStats
from actfirst.runs.lines import Summary
from actfirst.runs.run_folder import RunFolder
from actfirst.training import loop
from actfirst.training.assemble import Crew, assemble, stored_state
from actfirst.training.parts import open_engine, open_teacher
from actfirst.training.prepare import Prepared, prepare
from actfirst.training.run import Training
from actfirst.training.watch import Watcher

if TYPE_CHECKING:
    import torch

    from actfirst.learning.checkpoint import Checkpoint
    from actfirst.learning.update import Learner

Result = TypeVar("Result")


def train(config: Config, folder: Path, *, resume: bool = False, watcher: Watcher | None = None) -> Summary:
    """Train to the end (or from where a killed run stands) and return the summary."""
    return asyncio.run(_train(config, folder, resume, watcher or Watcher()))


async def _train(config: Config, folder: Path, resume: bool, watcher: Watcher) -> Summary:
    begun = time.monotonic()
    parts = prepare(config)
    begin = RunFolder.open if resume else RunFolder.create
    run_folder = begin(folder, dump_toml(config))
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
    config = parts.config
    state, checkpoint = stored_state(folder)
    folder.rewind(state.offsets)
    learner = _open_learner(config, parts.student, checkpoint, folder)
    model = checkpoint.model if checkpoint else parts.student
    opened.append(engine := open_engine(config.engine, model, learner.version))
    opened.append(teacher := open_teacher(config))

    async def shut_down() -> None:
        await engine.close()
        await teacher.close()
        await parts.stage.pool.close()
        learner.close()

    return assemble(parts, folder, watcher, state, Crew(learner, engine, teacher, shut_down), begun)


def _open_learner(
    config: Config, student: Path, checkpoint: Checkpoint | None, folder: RunFolder
) -> _LocalLearner:
    from actfirst.learning.rng import restore_rng
    from actfirst.learning.update import Learner

    learner = Learner(student, config.learner)
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
