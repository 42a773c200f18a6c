"""The whole experiment with its stored result: real on a recipe's engine and contexts, or simulated.

The result is written after every point, and an experiment that was stopped goes on with the points that are missing.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from actfirst.config.sections import Config
from actfirst.engines.base import Engine
from actfirst.errors import ConfigError
from actfirst.lab import stored
from actfirst.lab.rollout.contexts import BenchContext, make_contexts
from actfirst.lab.rollout.run import Calibration, Timing, calibrate, time_point
from actfirst.lab.rollout.settings import Point, Settings
from actfirst.lab.rollout.simulated import LatencyModel, SimulatedEngine, run_in_virtual_time

OpenEngine = Callable[[int], Engine]
"""An engine for points with this cap, which it holds itself in the optimised form."""

Told = Callable[[int, int, Timing], None]
"""Told of the points so far, of all points, and of the latest one."""


@dataclass(frozen=True)
class Subject:
    """What is measured, in words that a table shows. `simulated` must be said wherever a number is."""

    model: str
    engine: str
    recipe: str
    simulated: bool
    prompt_tokens: float


def measure(
    config: Config, recipe: str, model: Path, name: str, settings: Settings, out: Path, told: Told
) -> None:
    """Time a recipe's engine with the model in a folder; `name` is what it is called."""
    asyncio.run(_measure(config, recipe, model, name, settings, out, told))


def simulate(model: LatencyModel, prompt_tokens: int, settings: Settings, out: Path, told: Told) -> None:
    """The same on a simulated engine with contexts of `prompt_tokens` tokens."""
    prompt = (0,) * prompt_tokens
    contexts = [BenchContext(f"context {place}", prompt, prompt) for place in range(settings.contexts)]
    subject = Subject("none (simulated)", model.describe(), "", True, float(prompt_tokens))
    if settings.optimised:
        raise ConfigError("the simulated engine has no pauses to optimise with; leave out --optimised")
    run_in_virtual_time(_run(lambda cap: SimulatedEngine(model), contexts, settings, subject, out, told))


async def _measure(
    config: Config, recipe: str, model: Path, name: str, settings: Settings, out: Path, told: Told
) -> None:
    from actfirst.engines.open import open_engine
    from actfirst.policy.tokens import open_encoder
    from actfirst.training.parts import open_stage

    if config.engine.max_concurrency < max(*settings.caps, settings.cap):
        raise ConfigError(
            f"engine.max_concurrency = {config.engine.max_concurrency} is below the largest cap that is scanned "
            f"({max(*settings.caps, settings.cap)}); raise it"
        )
    stage = open_stage(config.environment, config.pool)
    try:
        contexts = await make_contexts(stage, open_encoder(model), config, settings.contexts, settings.seed)
    finally:
        await stage.pool.close()
    caching = "with" if config.engine.prefix_caching else "without"
    described = f"{config.engine.kind}, {config.engine.dtype}, {caching} prefix caching"
    mean_prompt = sum(len(context.full_ids) for context in contexts) / len(contexts)
    subject = Subject(name, described, recipe, False, mean_prompt)

    def opened(cap: int) -> Engine:
        held = {"max_concurrency": cap} if settings.optimised else {}
        return open_engine(config.engine.model_copy(update=held), model)

    await _run(opened, contexts, settings, subject, out, told)


async def _run(
    open_engine: OpenEngine,
    contexts: Sequence[BenchContext],
    settings: Settings,
    subject: Subject,
    out: Path,
    told: Told,
) -> None:
    done = _read(out, subject, settings)
    points = settings.points()
    missing = [point for point in points if point not in done]
    if not missing:
        return
    engine: Engine | None = None
    calibrations: list[Calibration] = []
    held = 0
    try:
        for point in missing:
            if engine is None or (settings.optimised and point.cap != held):
                if engine is not None:
                    await engine.close()
                engine, held = open_engine(point.cap), point.cap
                calibrations = await calibrate(engine, contexts, settings)
            timing = await time_point(engine, contexts, calibrations, settings, point)
            done[point] = timing.to_json()
            stored.store(out, stored.BENCH_ROLLOUT, _fields(subject, settings, calibrations, points, done))
            told(len(done), len(points), timing)
    finally:
        if engine is not None:
            await engine.close()


def _fields(
    subject: Subject,
    settings: Settings,
    calibrations: Sequence[Calibration],
    points: Sequence[Point],
    done: dict[Point, object],
) -> dict[str, object]:
    count = len(calibrations)
    return {
        **asdict(subject),
        "settings": settings.to_json(),
        "calibration": {
            "fast": sum(one.fast for one in calibrations) / count,
            "full": {str(full): sum(one.full[full] for one in calibrations) / count for full in settings.full},
        },
        "complete": len(done) == len(points),
        "points": [done[point] for point in points if point in done],
    }


def _read(out: Path, subject: Subject, settings: Settings) -> dict[Point, object]:
    """The points that a stopped experiment of the same kind has left; another one's file is refused."""
    if not out.exists():
        return {}
    found = json.loads(out.read_text(encoding="utf-8"))
    wanted = {**asdict(subject), "settings": settings.to_json()}
    differing = [key for key, value in wanted.items() if found.get(key) != value]
    if differing:
        raise ConfigError(
            f"{out} holds another measurement (other {', '.join(differing)}); name another file with --out, "
            "or remove that one"
        )
    return {Point(one["full"], one["cap"], one["turns"]): one for one in found["points"]}
