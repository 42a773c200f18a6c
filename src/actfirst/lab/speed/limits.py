"""`actfirst bench limits`: time and memory of large runs, at one, two, four and eight eighths of each limit.

    tasks      a world of so many tasks is opened, their order gone through once, an attempt of each stored and read
    lines      so many lines are written to metrics.jsonl, verified, and read as records
    episodes   so many are played at once by the policy of pocket: prompts rendered, answers parsed; an engine that
               always says the same

Each point is a process of its own, so that its peak of memory is its own.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from actfirst.config.load import resolve
from actfirst.lab.spread import Told


@dataclass(frozen=True, slots=True)
class Point:
    """What one size costs: processor seconds, and bytes beyond those that the process had before."""

    size: int
    cpu: float
    memory: int


def _tasks(count: int) -> None:
    from actfirst.references.store import Attempt, ReferenceStore, ReferenceWriter
    from actfirst.rollout.stage import open_stage
    from actfirst.rollout.task_order import TaskOrder

    config = resolve("pocket", [f"environment.train_tasks={count}"])
    world = open_stage(config.environment, config.pool).world
    tasks = tuple(world.tasks("train"))
    order = TaskOrder(tasks, 16, seed=0)
    met = {task.id for index in range(-(-count // 16)) for task in order.batch(index)}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "references.jsonl"
        writer = ReferenceWriter(path, world)
        for task in tasks:
            writer.add(Attempt(task.id, "train", task.kind, ("expert",), reason="not asked"))
        writer.close()
        store = ReferenceStore.read(path)
        found = sum(store.attempt(task.id) is not None for task in tasks)
    assert len(met) == found == count


def _lines(count: int) -> None:
    from actfirst.runs.lines import LedgerCounts, UpdateLine
    from actfirst.runs.run import open_run
    from actfirst.runs.run_folder import RunFolder
    from actfirst.runs.verify import look

    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "run"
        with RunFolder.create(folder, "") as run:
            for update in range(1, count + 1):
                run.append_metrics(
                    UpdateLine(
                        update=update,
                        training_seconds=float(update),
                        stages={"update": 1.0},
                        ledger=LedgerCounts(generated=update, trained=update),
                        sample_ids=(f"{update}-0",),
                        loss=0.5,
                        grad_norm=1.0,
                    )
                )
        look(folder)
        assert len(open_run(folder).updates) == count


def _episodes(count: int) -> None:
    from actfirst.engines.base import Priority, Sampling
    from actfirst.methods.acting import TrainingPoint
    from actfirst.records import Completion, EngineStats, StopReason
    from actfirst.rollout.scoring import EngineTeacher
    from actfirst.training.parts import find_parts, open_collector

    class Parrot:
        """Answers at once, always the same."""

        version = 0

        def __init__(self, ids: Sequence[int]) -> None:
            self._ids = tuple(ids)
            self.most = self.now = 0

        async def generate(
            self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
        ) -> Completion:
            self.now += 1
            self.most = max(self.most, self.now)
            await asyncio.sleep(0)
            self.now -= 1
            return Completion(self._ids, (-1.0,) * len(self._ids), StopReason.EOS, 0)

        async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
            return (-1.0,) * len(token_ids)

        async def load_weights(self, weights: object, version: int) -> None: ...

        async def close(self) -> None: ...

        def stats(self) -> EngineStats:
            return EngineStats(0, 0, 0, 0, 0, 0, 0.0, 0, 0)

    settings = [
        f"environment.train_tasks={count}",
        f"rollout.tasks_per_batch={count}",
        "environment.turn_limit=4",
    ]
    found = find_parts(resolve("pocket", settings))
    engine = Parrot(found.encoder.encode_output("<action>look</action>"))
    acting = found.stage.policy(engine, found.encoder, found.config.rollout.generation)
    collector = open_collector(found, acting, EngineTeacher(engine), time.monotonic)
    batch = asyncio.run(collector.collect(0, found.order.batch(0), TrainingPoint(0, 0, 1)))
    assert len(batch.episodes) == count <= engine.most


LIMITS: dict[str, tuple[int, Callable[[int], None]]] = {
    "tasks": (10_000, _tasks),
    "lines of metrics": (1_000_000, _lines),
    "episodes at once": (1_024, _episodes),
}


def measure(names: Sequence[str], smaller: int, told: Told) -> dict[str, list[Point]]:
    """Every limit at an eighth, a quarter, a half and the whole of it; all of them so many times `smaller`."""
    points: dict[str, list[Point]] = {name: [] for name in names}
    done = 0
    for name in names:
        for part in (8, 4, 2, 1):
            size = max(1, LIMITS[name][0] // part // smaller)
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as alone:
                points[name].append(alone.submit(_point, name, size).result())
            done += 1
            told(done, 4 * len(names), f"{name}: {size:,}")
    return points


def _point(name: str, size: int) -> Point:
    work = LIMITS[name][1]
    work(1)  # imports, and what is loaded once
    before, begun = _peak(), time.process_time()
    work(size)
    return Point(size, time.process_time() - begun, _peak() - before)


def _peak() -> int:
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
