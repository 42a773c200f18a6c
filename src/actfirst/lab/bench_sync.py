"""How long new weights take: from the end of an update to the first token that was sampled with them.

Random Qwen3 models of growing size, a real update, an idle engine. Whether the token really came from the new weights
is checked against a plain transformers forward pass: an engine that kept a stale copy would show here.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.config.sections import Config
from actfirst.engines.base import Engine, Sampling
from actfirst.engines.open import open_engine
from actfirst.errors import EngineError
from actfirst.models.folder import quiet_libraries, resolve_model
from actfirst.records import TurnSample

if TYPE_CHECKING:
    import torch

    from actfirst.training.run import TrainingLearner

_PROMPT = tuple(range(5, 69))
_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5}


@dataclass(frozen=True, slots=True)
class Size:
    """A Qwen3 of this width and depth; other widths follow."""

    width: int
    layers: int


SIZES = (Size(64, 4), Size(128, 6), Size(256, 8), Size(512, 10))


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
class Subject:
    """What is timed. `here` gives the learner's weights in this process, wherever they are."""

    learner: TrainingLearner
    engine: Engine
    here: Callable[[], Awaitable[Mapping[str, torch.Tensor]]]


Told = Callable[[SyncTiming], None]


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
    quiet_libraries()
    timings = []
    on_ray = config.runtime.kind == "ray"
    with _cluster(config) if on_ray else nullcontext():
        for size in sizes:
            folder = scratch / f"{size.width}x{size.layers}"
            parameters = make_model(folder, size)
            async with (_on_ray if on_ray else _locally)(config, folder) as subject:
                timings.append(await _time(config, folder, parameters, subject, repeats))
            told(timings[-1])
    return timings


def _cluster(config: Config) -> AbstractContextManager[None]:
    from actfirst.training.ray.cluster import Demands, cluster

    return cluster(config.runtime, Demands.of(config))


async def _time(config: Config, folder: Path, parameters: int, subject: Subject, repeats: int) -> SyncTiming:
    learner, engine = subject.learner, subject.engine
    announced, sampled, errors = [], [], []
    for version in range(1, repeats + 2):
        await learner.update([_sample()])
        begun = time.perf_counter()
        await engine.load_weights(learner.weights(), version)
        middle = time.perf_counter()
        completion = await engine.generate(_PROMPT, Sampling(1, seed=version))
        ended = time.perf_counter()
        if completion.version != version:
            raise EngineError(
                f"a token of version {completion.version} came after weights of version {version}"
            )
        expected = _logprob(folder, await subject.here(), completion.token_ids[0])
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
    import shutil

    import torch
    from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

    pocket = resolve_model("pocket:student", "models.student")
    folder.mkdir(parents=True, exist_ok=True)
    for path in pocket.iterdir():
        if path.name.startswith("tokenizer") or path.suffix == ".jinja":
            shutil.copyfile(path, folder / path.name)
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=len(AutoTokenizer.from_pretrained(str(pocket))),
        hidden_size=size.width,
        intermediate_size=3 * size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.width // 32,
        num_key_value_heads=max(1, size.width // 128),
        head_dim=32,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )
    model = Qwen3ForCausalLM(config)
    model.save_pretrained(folder)
    return sum(parameter.numel() for parameter in model.parameters())


@asynccontextmanager
async def _locally(config: Config, folder: Path) -> AsyncIterator[Subject]:
    from actfirst.training.local import LocalLearner

    engine = open_engine(config.engine, folder)
    learner = LocalLearner(folder, config.learner, folder)

    async def here() -> Mapping[str, torch.Tensor]:
        return learner.weights()

    try:
        yield Subject(learner, engine, here)
    finally:
        await engine.close()
        await learner.close()


@asynccontextmanager
async def _on_ray(config: Config, folder: Path) -> AsyncIterator[Subject]:
    from actfirst.training.ray.cluster import Demands
    from actfirst.training.ray.fleet import start_fleet
    from actfirst.training.ray.learner import start_learner

    engines = start_fleet(Demands.of(config).engine, config.engine, folder)
    learner = start_learner(folder, config, folder)

    async def here() -> Mapping[str, torch.Tensor]:
        return await learner.weights().fetched()

    try:
        await asyncio.gather(engines.open(), learner.open(None))
        yield Subject(learner, engines, here)
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
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
    model.load_state_dict({name: tensor.float() for name, tensor in weights.items()}, strict=False)
    with torch.inference_mode():
        logits = model(torch.tensor([_PROMPT])).logits[0, -1]
    return float(torch.log_softmax(logits, -1)[token])


def _sample() -> TurnSample:
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
        teacher_logprobs=(-1.0,) * len(tokens),
        version=0,
    )
