"""What `actfirst plan` says of runs that are really made: python -m tests.tools.plan_check FOLDER [UPDATES [RUNS]]

Whole training runs on a local Ray cluster: the pocket models, real actors, the real driver and loop. Two cores cannot
show what happens on several GPUs, so engines and learner ranks wait out a stated time for each step and each token, as
a host does whose GPU computes. Each run is predicted from the stated times, from what the first run shows (`--like`),
and from what it shows itself: on a busy machine these differ. Runs that are in FOLDER are not made again.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.lab.plan.costs import Costs, measured
from actfirst.lab.plan.model import simulate
from actfirst.lab.plan.work import Plan, PlannedEpisode, episodes_of
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


def stated(shown: Costs) -> Costs:
    """What parts were told to take; transfers take what they took."""
    engine, teacher = (
        replace(kind, latency=replace(LATENCY, max_prefill=kind.latency.max_prefill))
        for kind in (shown.engine, shown.teacher)
    )
    return replace(shown, engine=engine, teacher=teacher, token=TOKEN_SECONDS)


def predicted(config: Config, costs: Costs, episodes: Sequence[PlannedEpisode], updates: int) -> float:
    engine = replace(costs.engine, cap=config.engine.max_concurrency, drains=config.engine.swap == "drain")
    there = replace(costs, engine=engine)
    return simulate(Plan.of(config), there, episodes, updates - _WARM_UP, _WARM_UP).seconds


def main(folder: Path, updates: int, runs: int) -> None:
    fleet.EngineActor = SlowEngine  # type: ignore[misc]
    learner.RankActor = SlowRank  # type: ignore[misc]
    first = None
    for name, settings in list(RUNS.items())[:runs]:
        path = folder / name.replace(" ", "-").replace(",", "")
        config = resolve("pocket", [*_SETTINGS, *settings, f"run.updates={updates}"])
        if not path.exists():
            train(config, path)
        run = open_run(path)
        own = measured(config, run), episodes_of(list(run.episodes()))
        first = first or own
        real = seconds_of(path)
        said = stated(own[0]), own[1]
        found = [predicted(config, *costs, updates) for costs in (said, first, own)]
        shown = "  ".join(f"{one:6.2f} ({100 * (one / real - 1):+.0f} %)" for one in found)
        print(
            f"{name:36s} measured {real:6.2f}, predicted by stated times, the first run, itself: {shown}",
            flush=True,
        )


if __name__ == "__main__":
    numbers = [int(number) for number in sys.argv[2:4]]
    main(Path(sys.argv[1]), *(*numbers, *(10, len(RUNS))[len(numbers) :]))
