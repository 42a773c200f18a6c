"""What `actfirst plan` says of runs that are really made: python -m tests.tools.plan_check FOLDER [UPDATES]

Whole training runs on a local Ray cluster: the pocket models, real actors, the real driver and loop. Two cores cannot
show what happens on several GPUs, so engines and learner ranks wait out a stated time for each step and each token, as
a host does whose GPU computes. The first run tells what parts take (`--like`); the others are predicted from it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from actfirst.config.load import resolve
from actfirst.lab.plan.costs import measured
from actfirst.lab.plan.model import simulate
from actfirst.lab.plan.work import Plan, episodes_of
from actfirst.lab.rollout.simulated import LatencyModel
from actfirst.records import TurnSample, UpdateStats
from actfirst.runs.run import open_run
from actfirst.training.open import train
from actfirst.training.ray import fleet, learner
from actfirst.training.ray.engine_actor import EngineActor
from actfirst.training.ray.learner import RankActor

LATENCY = LatencyModel(step=0.05, sequence=0.002, prefill=0.0001)
TOKEN_SECONDS = 0.0003
_WARM_UP = 2
_SETTINGS = (
    "runtime.kind=ray",
    "runtime.cpus=0.1",
    "runtime.object_store_mb=100",
    "rollout.generation.drafts=false",
    "engine.preempt=false",
    "engine.prefix_caching=false",
    "teacher.prefix_caching=false",
    "engine.weight_check_every=0",
    "evaluation.every=0",
    "evaluation.at_start=false",
    "evaluation.at_end=false",
    "evaluation.teacher=false",
    "checkpoint.every=1000",
)
RUNS = {
    "one engine, one rank": (),
    "two engines": ("runtime.rollout_engines=2",),
    "a cap of 4 requests": ("engine.max_concurrency=4",),
    "think-then-act": ("rollout.method=vanilla",),
    "all responses, overlap, two ranks": (
        "rollout.responses=all",
        "rollout.overlap=true",
        "runtime.learners=2",
        "runtime.rollout_engines=2",
        "rollout.tasks_per_batch=8",
    ),
    "the same, in flight": (
        "rollout.responses=all",
        "rollout.overlap=true",
        "runtime.learners=2",
        "runtime.rollout_engines=2",
        "rollout.tasks_per_batch=8",
        "engine.swap=in_flight",
    ),
}


class SlowEngine(EngineActor):
    """An engine whose steps take as long as `LATENCY` says."""

    async def start(self) -> None:
        await super().start()
        stepper: Any = self._engine._loop.stepper  # type: ignore[attr-defined]
        stepper.step = _slower(stepper)


def _slower(stepper: Any) -> Any:
    step = stepper.step

    def slower(*, admit: bool) -> Any:
        counters, begun = stepper.counters, time.perf_counter()
        generated, prefilled = counters.generated, sum(counters.prefilled.values())
        ended = step(admit=admit)
        seconds = LATENCY.step + LATENCY.sequence * (counters.generated - generated)
        seconds += LATENCY.prefill * (sum(counters.prefilled.values()) - prefilled)
        time.sleep(max(0.0, seconds - (time.perf_counter() - begun)))
        return ended

    return slower


class SlowRank(RankActor):
    """A rank whose updates take `TOKEN_SECONDS` for each token of its share."""

    def update(self, samples: Sequence[TurnSample]) -> UpdateStats:
        begun = time.perf_counter()
        stats = super().update(samples)
        tokens = sum(len(sample.prompt_ids) + len(sample.token_ids) for sample in samples)
        time.sleep(max(0.0, TOKEN_SECONDS * tokens / self._ranks - (time.perf_counter() - begun)))
        return stats


def seconds_of(folder: Path) -> float:
    """Of an update, without the first ones."""
    updates = open_run(folder).updates
    return (updates[-1].training_seconds - updates[_WARM_UP - 1].training_seconds) / (len(updates) - _WARM_UP)


def main(folder: Path, updates: int) -> None:
    fleet.EngineActor = SlowEngine  # type: ignore[misc]
    learner.RankActor = SlowRank  # type: ignore[misc]
    costs, episodes = None, None
    for name, settings in RUNS.items():
        path = folder / name.replace(" ", "-").replace(",", "")
        config = resolve("pocket", [*_SETTINGS, *settings, f"run.updates={updates}"])
        if not path.exists():
            train(config, path)
        if costs is None or episodes is None:
            first = open_run(path)
            costs, episodes = measured(config, first), episodes_of(list(first.episodes()))
            print(costs)
        kind = {"cap": config.engine.max_concurrency, "drains": config.engine.swap == "drain"}
        from dataclasses import replace

        there = replace(costs, engine=replace(costs.engine, **kind))
        found = simulate(Plan.of(config), there, episodes, updates - _WARM_UP, _WARM_UP)
        real = seconds_of(path)
        off = 100 * (found.seconds / real - 1)
        print(f"{name:36s} measured {real:6.2f}  predicted {found.seconds:6.2f} s  {off:+.0f} %", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 10)
