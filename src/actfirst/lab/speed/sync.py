"""`actfirst bench sync`: how long new weights take, from the end of an update to the first token sampled with them.

Random Qwen3 models of growing size, a real update, an idle engine. Whether the token really came from the new weights
is checked against a plain transformers forward pass: an engine that kept a stale copy would show here.
"""

from __future__ import annotations

import asyncio
import shutil
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.config.config import Config
from actfirst.engines.base import Engine, Sampling
from actfirst.engines.open import open_engine
from actfirst.errors import EngineError
from actfirst.lab.speed.models import HEAD_WIDTH, Size, write_checkpoint
from actfirst.lab.spread import Told
from actfirst.models.files import read_files
from actfirst.models.folder import resolve_model
from actfirst.models.plain import open_plain, plain_logprobs
from actfirst.records import TurnSample, UpdateStats

if TYPE_CHECKING:
    import torch

SIZES = (Size(2, 4), Size(4, 6), Size(8, 8), Size(16, 10))
_PROMPT = tuple(range(5, 69))
_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5}


@dataclass(frozen=True, slots=True)
class SyncTiming:
    """Medians over updates. `token_seconds` is the first token after the weights were announced."""

    engine: str
    runtime: str
    parameters: int
    announce_seconds: float
    token_seconds: float
    logprob_error: float

    @property
    def seconds(self) -> float:
        return self.announce_seconds + self.token_seconds


@dataclass(frozen=True)
class _Sides:
    """A learner and an engine, wherever they are. `fetched` brings the weights into this process."""

    update: Callable[[Sequence[TurnSample]], Awaitable[UpdateStats]]
    weights: Callable[[], Mapping[str, torch.Tensor]]
    fetched: Callable[[], Awaitable[Mapping[str, torch.Tensor]]]
    engine: Engine


def measure(config: Config, sizes: Sequence[Size], repeats: int, scratch: Path, told: Told) -> list[SyncTiming]:
    """One timing for each size, with the engine and the runtime of `config`."""
    return asyncio.run(_measure(config, sizes, repeats, scratch.absolute(), told))


def growth(timings: Sequence[SyncTiming]) -> float:
    """Seconds for each further 100 million parameters, between the smallest and the largest model."""
    first, last = timings[0], timings[-1]
    more = (last.parameters - first.parameters) / 1e8
    return (last.seconds - first.seconds) / more if more else 0.0


def to_json(timings: Sequence[SyncTiming]) -> list[dict[str, object]]:
    return [{**asdict(timing), "seconds": timing.seconds} for timing in timings]


async def _measure(
    config: Config, sizes: Sequence[Size], repeats: int, scratch: Path, told: Told
) -> list[SyncTiming]:
    timings = []
    on_ray = config.runtime.kind == "ray"
    with _cluster(config) if on_ray else nullcontext():
        for number, size in enumerate(sizes, start=1):
            folder = scratch / f"{size.heads}x{size.layers}"
            parameters = make_model(folder, size)
            async with (_on_ray if on_ray else _locally)(config, folder) as sides:
                found = await _time(config, folder, parameters, sides, repeats)
            timings.append(found)
            what = f"{found.engine}, {found.runtime}, {parameters / 1e6:.1f} M: {found.seconds * 1e3:.0f} ms"
            told(number, len(sizes), what)
    return timings


def _cluster(config: Config) -> AbstractContextManager[None]:
    from actfirst.training.ray.cluster import Demands, cluster

    return cluster(config.runtime, Demands.of(config))


async def _time(config: Config, folder: Path, parameters: int, sides: _Sides, repeats: int) -> SyncTiming:
    announced, sampled, errors = [], [], []
    for version in range(1, repeats + 2):
        await sides.update([make_sample()])
        begun = time.perf_counter()
        await sides.engine.load_weights(sides.weights(), version)
        middle = time.perf_counter()
        completion = await sides.engine.generate(_PROMPT, Sampling(1, seed=version))
        ended = time.perf_counter()
        if completion.version != version:
            raise EngineError(
                f"a token of version {completion.version} came after weights of version {version}"
            )
        expected = _logprob(folder, await sides.fetched(), completion.token_ids[0])
        errors.append(abs(expected - completion.logprobs[0]))
        if version > 1:  # the first time warms up
            announced.append(middle - begun)
            sampled.append(ended - middle)
    if max(errors) > _TOLERANCE[config.engine.dtype]:
        raise EngineError(
            f"the engine's log-probs differ from a forward pass by {max(errors):.3g}: stale weights"
        )
    return SyncTiming(
        config.engine.kind,
        config.runtime.kind,
        parameters,
        statistics.median(announced),
        statistics.median(sampled),
        max(errors),
    )


def make_model(folder: Path, size: Size) -> int:
    """A random model with the tokenizer of the pocket student; returns its number of parameters."""
    pocket = resolve_model("pocket:student", "models.student")
    folder.mkdir(parents=True, exist_ok=True)
    for path in pocket.iterdir():
        if path.name.startswith("tokenizer") or path.suffix == ".jinja":
            shutil.copyfile(path, folder / path.name)
    stated = size.config(read_files(pocket).shape.vocab_size, 512)
    width = size.heads * HEAD_WIDTH
    return write_checkpoint(
        folder, {**stated, "intermediate_size": 3 * width, "num_key_value_heads": max(1, width // 128)}
    )


@asynccontextmanager
async def _locally(config: Config, folder: Path) -> AsyncIterator[_Sides]:
    from actfirst.training.local import LocalLearner

    engine = open_engine(config.engine, folder)
    learner = LocalLearner(folder, config.learner, folder)

    async def fetched() -> Mapping[str, torch.Tensor]:
        return learner.weights()

    try:
        yield _Sides(learner.update, learner.weights, fetched, engine)
    finally:
        await engine.close()
        await learner.close()


@asynccontextmanager
async def _on_ray(config: Config, folder: Path) -> AsyncIterator[_Sides]:
    from actfirst.training.ray.cluster import Demands
    from actfirst.training.ray.fleet import start_fleet
    from actfirst.training.ray.learner import start_learner

    engines = start_fleet(Demands.of(config).engine, config.engine, folder, config.runtime)
    learner = start_learner(folder, config, folder)

    try:
        await asyncio.gather(engines.open(), learner.open(None))
        yield _Sides(learner.update, learner.weights, lambda: learner.weights().fetched(), engines)
        if learner.fallbacks:
            raise EngineError(
                f"{learner.fallbacks} broadcasts failed and went through the object store, so this timed something "
                f"else ({learner.first_fallback}); fix that, or set runtime.weight_sync=store"
            )
    finally:
        await engines.close()
        await learner.close()


def _logprob(folder: Path, weights: Mapping[str, torch.Tensor], token: int) -> float:
    """Of a token after the prompt, by transformers."""
    model = open_plain(folder)
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, strict=False)
    return plain_logprobs(model, _PROMPT, [token])[0]


def make_sample() -> TurnSample:
    """Something to update on, so that the weights change."""
    tokens = tuple(range(20, 36))
    return TurnSample(
        id="sample",
        episode_id="episode",
        task_id="task",
        turn=1,
        prompt_ids=_PROMPT,
        token_ids=tokens,
        mask=(1,) * len(tokens),
        behaviour_logprobs=(-5.0,) * len(tokens),
        advantages=(4.0,) * len(tokens),
        version=0,
    )
