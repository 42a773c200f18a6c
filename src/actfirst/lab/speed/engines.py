"""`actfirst bench engines`: the embedded engine beside vLLM on the same random models, in one process.

Prompts of one length, so many at once; the engines take turns. A prefill is a request for one token; what further
tokens take beyond that is decoding. Prefix caching is off: every prompt is computed. Processor time is counted beside
the clock, since other programs disturb it less; with one thread the two agree on a quiet machine.
"""

from __future__ import annotations

import asyncio
import random
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from actfirst.config.engine_sections import EngineSection
from actfirst.engines.base import Engine, Sampling
from actfirst.engines.open import open_engine
from actfirst.errors import ConfigError
from actfirst.lab.speed.models import write_checkpoint
from actfirst.lab.spread import Spread, Told, ratios

PROMPT, POSITIONS = 200, 512


@dataclass(frozen=True, slots=True)
class Shape:
    """A Qwen3 decoder."""

    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    vocabulary: int

    def config(self) -> dict[str, object]:
        """A `config.json` of transformers."""
        return {
            "architectures": ["Qwen3ForCausalLM"],
            "model_type": "qwen3",
            "vocab_size": self.vocabulary,
            "hidden_size": self.hidden,
            "intermediate_size": self.intermediate,
            "num_hidden_layers": self.layers,
            "num_attention_heads": self.heads,
            "num_key_value_heads": self.kv_heads,
            "head_dim": self.hidden // self.heads,
            "hidden_act": "silu",
            "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"},
            "max_position_embeddings": POSITIONS,
            "tie_word_embeddings": True,
            "attention_bias": False,
            "dtype": "float32",
        }


SHAPES = {"12M": Shape(320, 960, 8, 5, 5, 4096), "135M": Shape(576, 1536, 30, 9, 3, 49_152)}


@dataclass(frozen=True, slots=True)
class Seconds:
    """Of each round, one engine: processor time and time of prefill and of decoding alone."""

    prefill: list[float] = field(default_factory=list)
    decode: list[float] = field(default_factory=list)
    prefill_clock: list[float] = field(default_factory=list)
    decode_clock: list[float] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Point:
    """So many requests at once on one model; `seconds` by engine, all with equally many rounds."""

    model: str
    parameters: int
    batch: int
    new_tokens: int
    seconds: dict[str, Seconds]

    def rate(self, engine: str, what: str) -> Spread:
        """Tokens per second of processor time."""
        found: list[float] = getattr(self.seconds[engine], what)
        tokens = self.batch * (PROMPT if what == "prefill" else self.new_tokens)
        return Spread.of([tokens / seconds for seconds in found])

    def ahead(self, what: str) -> Spread | None:
        """How many times as fast the embedded engine is as vLLM, round by round."""
        if "vllm" not in self.seconds:
            return None
        return ratios(getattr(self.seconds["vllm"], what), getattr(self.seconds["embedded"], what))


def measure(
    models: Sequence[str],
    kinds: Sequence[str],
    batches: Sequence[int],
    new_tokens: int,
    rounds: int,
    threads: int,
    scratch: Path,
    told: Told,
) -> list[Point]:
    """Every model in turn, and for each all engines at each number of requests."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    points: list[Point] = []
    try:
        for name in models:
            folder = scratch / name
            parameters = write_checkpoint(folder, SHAPES[name].config())
            points += asyncio.run(
                _model(name, parameters, folder, kinds, batches, new_tokens, rounds, threads, told)
            )
    finally:
        torch.set_num_threads(before)
    return points


def with_tokenizer(folder: Path, size: str, source: Path) -> Path:
    """A random model of a size, with the tokenizer of `source`, in `folder`."""
    if size not in SHAPES:
        raise ConfigError(f"there is no model {size!r} here; choose from {', '.join(SHAPES)}")
    write_checkpoint(folder, {**SHAPES[size].config(), "max_position_embeddings": 2048})
    for path in source.iterdir():
        if "token" in path.name or path.suffix == ".jinja":
            shutil.copyfile(path, folder / path.name)
    return folder


def to_json(points: Sequence[Point]) -> dict[str, object]:
    return {"prompt_tokens": PROMPT, "points": [asdict(point) for point in points]}


def rows(points: Sequence[Point]) -> list[dict[str, str]]:
    """What a person sees."""
    found = []
    for point in points:
        row = {"model": f"{point.model} ({point.parameters / 1e6:.0f}M)", "requests": str(point.batch)}
        for what in ("prefill", "decode"):
            for engine in point.seconds:
                row[f"{what}, {engine} (tokens/s)"] = point.rate(engine, what).text(0)
            if (ahead := point.ahead(what)) is not None:
                row[f"{what}, times vLLM"] = ahead.text()
        found.append(row)
    return found


async def _model(
    name: str,
    parameters: int,
    folder: Path,
    kinds: Sequence[str],
    batches: Sequence[int],
    new_tokens: int,
    rounds: int,
    threads: int,
    told: Told,
) -> list[Point]:
    engines: dict[str, Engine] = {kind: open_engine(_settings(kind, threads), folder) for kind in kinds}
    try:
        points = []
        for batch in batches:
            seconds = {kind: Seconds() for kind in kinds}
            for turn in range(rounds + 1):  # the first warms up
                for kind, engine in engines.items():
                    await _round(engine, batch, new_tokens, turn, seconds[kind] if turn else Seconds())
                told(turn, rounds, f"{name}, {batch} at once")
            points.append(Point(name, parameters, batch, new_tokens, seconds))
        return points
    finally:
        for engine in engines.values():
            await engine.close()


async def _round(engine: Engine, batch: int, new_tokens: int, turn: int, found: Seconds) -> None:
    async def ask(tokens: int) -> tuple[float, float]:
        draw = random.Random(f"{batch} {turn}")
        prompts = [[draw.randrange(4096) for _ in range(PROMPT)] for _ in range(batch)]
        sampling = Sampling(tokens, seed=0, ignore_eos=True)
        clocks: tuple[Callable[[], float], ...] = (time.process_time, time.perf_counter)
        before = [clock() for clock in clocks]
        await asyncio.gather(*(engine.generate(prompt, sampling) for prompt in prompts))
        spent, passed = (clock() - then for clock, then in zip(clocks, before))
        return spent, passed

    (first, first_clock), (both, both_clock) = await ask(1), await ask(1 + new_tokens)
    found.prefill.append(first)
    found.prefill_clock.append(first_clock)
    found.decode.append(max(both - first, 1e-9))
    found.decode_clock.append(max(both_clock - first_clock, 1e-9))


def _settings(kind: str, threads: int) -> EngineSection:
    given: dict[str, Any] = {
        "kind": kind,
        "dtype": "float32",
        "threads": threads,
        "prefix_caching": False,
        "max_concurrency": 64,
        "vllm": {"enforce_eager": True, "max_model_len": POSITIONS},
    }
    return EngineSection.model_validate(given)
