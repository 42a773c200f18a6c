"""The whole experiment with its stored result: real on a recipe's engine and contexts, or simulated.

The contexts are first observations of training tasks, as prompts of both modes: full responses use the think-then-act
prompt, fast actions the action-only prompt without a reference. The result is written after every point, and an
experiment that was stopped goes on with the points that are missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean

from actfirst.config.config import Config
from actfirst.engines.base import Engine
from actfirst.engines.open import open_engine
from actfirst.errors import ConfigError
from actfirst.lab import stored
from actfirst.lab.drawing import draw_tasks
from actfirst.lab.rollout.result import Calibration, RolloutResult
from actfirst.lab.rollout.schedules import BenchContext
from actfirst.lab.rollout.settings import Point, RolloutSettings
from actfirst.lab.rollout.simulated import LatencyModel, SimulatedEngine, run_in_virtual_time
from actfirst.lab.rollout.timing import calibrate, time_point
from actfirst.lab.spread import Told
from actfirst.policy.chat_template import Ending
from actfirst.policy.history import fit
from actfirst.policy.tokens import PromptEncoder, open_encoder
from actfirst.records import Mode, TurnContext
from actfirst.rollout.stage import open_stage

OpenEngine = Callable[[int], Engine]
"""An engine for points with this cap, which it holds itself in the optimised form."""


def measure(
    config: Config, recipe: str, model: Path, name: str, settings: RolloutSettings, out: Path, told: Told
) -> None:
    """Time a recipe's engine with the model in a folder; `name` is what it is called."""
    most = max(*settings.caps, settings.cap)
    if config.engine.max_concurrency < most:
        given = f"engine.max_concurrency = {config.engine.max_concurrency}"
        raise ConfigError(f"{given} is below the largest cap that is scanned ({most}); raise it")

    def opened(cap: int) -> Engine:
        held = {"max_concurrency": cap} if settings.optimised else {}
        return open_engine(config.engine.model_copy(update=held), model)

    async def run() -> None:
        contexts = await make_contexts(config, open_encoder(model), settings)
        caching = "with" if config.engine.prefix_caching else "without"
        result = RolloutResult(
            model=name,
            engine=f"{config.engine.kind}, {config.engine.dtype}, {caching} prefix caching",
            recipe=recipe,
            simulated=False,
            prompt_tokens=sum(len(context.full_ids) for context in contexts) / len(contexts),
            settings=settings,
        )
        await _run(opened, contexts, result, out, told)

    asyncio.run(run())


def simulate(model: LatencyModel, prompt_tokens: int, settings: RolloutSettings, out: Path, told: Told) -> None:
    """The same on a simulated engine with contexts of `prompt_tokens` tokens."""
    if settings.optimised:
        raise ConfigError("the simulated engine has no pauses to optimise with; leave out --optimised")
    prompt = (0,) * prompt_tokens
    contexts = [BenchContext(f"context {place}", prompt, prompt) for place in range(settings.contexts)]
    result = RolloutResult(
        model="none (simulated)",
        engine=model.describe(),
        recipe="",
        simulated=True,
        prompt_tokens=prompt_tokens,
        settings=settings,
    )
    run_in_virtual_time(_run(lambda cap: SimulatedEngine(model), contexts, result, out, told))


async def make_contexts(
    config: Config, encoder: PromptEncoder, settings: RolloutSettings
) -> list[BenchContext]:
    """Contexts of training tasks, in proportion to task types."""
    stage = open_stage(config.environment, config.pool)
    templates, limit = stage.templates, config.rollout.generation.prompt_limit
    ending = Ending(config.rollout.generation.fast_reasoning)
    contexts = []
    try:
        async with stage.pool.lease() as environment:
            for task in draw_tasks(stage.world.tasks("train"), settings.contexts, settings.seed):
                instruction, observation = await environment.reset(task)
                context = TurnContext(instruction, (), observation, 1)
                fast = fit(encoder, templates, Mode.NEXT_ACTION, context, limit, ending=ending)
                full = fit(encoder, templates, Mode.FULL, context, limit)
                contexts.append(BenchContext(task.id, fast.ids, full.ids))
    finally:
        await stage.pool.close()
    return contexts


async def _run(
    open_engine: OpenEngine, contexts: Sequence[BenchContext], begun: RolloutResult, out: Path, told: Told
) -> None:
    settings, about = begun.settings, {"model", "engine", "recipe", "simulated", "prompt_tokens", "settings"}
    found = stored.read_unfinished(out, begun.model_dump(mode="json", include=about))
    earlier = RolloutResult.model_validate(found).points if found else ()
    done = {Point(one.full, one.cap, one.turns): one for one in earlier}
    points = settings.points()
    engine: Engine | None = None
    calibrations: list[Calibration] = []
    held = 0
    try:
        for point in [point for point in points if point not in done]:
            if engine is None or (settings.optimised and point.cap != held):
                if engine is not None:
                    await engine.close()
                engine, held = open_engine(point.cap), point.cap
                calibrations = await calibrate(engine, contexts, settings)
            done[point] = await time_point(engine, contexts, calibrations, settings, point)
            result = begun.model_copy(
                update={
                    "calibration": _mean(calibrations),
                    "complete": len(done) == len(points),
                    "points": tuple(done[point] for point in points if point in done),
                }
            )
            stored.store(out, stored.BENCH_ROLLOUT, result.model_dump(mode="json"))
            told(len(done), len(points), str(done[point]))
    finally:
        if engine is not None:
            await engine.close()


def _mean(calibrations: Sequence[Calibration]) -> Calibration:
    return Calibration(
        fmean(one.fast for one in calibrations),
        {full: fmean(one.full[full] for one in calibrations) for full in calibrations[0].full},
    )
