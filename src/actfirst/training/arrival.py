"""Proof that new weights arrived: every engine's log-probs of a few tokens against the learner's, after a sync.

The learner computes a short sequence right after its update; engines score it beside what else they do, and the answer
is looked at before the next sync. So nothing waits for it, and weights that never arrive end a run by the name of the
engine. Small updates in bfloat16 differ by less than rounding: there a lost sync shows once its weights have drifted.
The other sign is in the samples: those of the present version must have log-probs as the learner computes them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from typing import Protocol

from actfirst.config.config import Config
from actfirst.errors import ActfirstError, EngineError
from actfirst.learning.sft import Example, as_samples
from actfirst.records import TurnSample, UpdateStats

Scores = Callable[[Sequence[int], Sequence[int]], Awaitable[Mapping[str, Sequence[float]]]]
"""Log-probs of tokens after a prompt, of every engine by its name."""

_PROMPT, _TOKENS = 48, 16
# Of a mean over the probe's tokens. Engine and learner round differently.
_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.15}
_RATIOS = {"float32": 0.05, "bfloat16": float("inf")}
_MEAN_RATIO = 0.2


class Measuring(Protocol):
    """The part of the learner that is asked."""

    async def measure(self, samples: Sequence[TurnSample]) -> float: ...


class Arrival:
    """`every`: after each so-many-th sync; 0 never. `gap` is the largest difference that was seen last."""

    def __init__(self, config: Config, learner: Measuring, scores: Scores) -> None:
        self.gap: float | None = None
        self._every = config.engine.weight_check_every
        self._learner = learner
        self._scores = scores
        self._half = _precision(config)
        # At other temperatures, or with weights that change within a response, the ratio of a fresh sample is not 1.
        generation = config.rollout.generation
        plain = (generation.temperature, generation.top_p, generation.top_k) == (1.0, 1.0, 0)
        self._ratios = plain and config.engine.swap != "in_flight" and not config.learner.whole_batches
        self._under_way: asyncio.Task[None] | None = None

    async def begin(self, samples: Sequence[TurnSample], version: int) -> None:
        """Ask learner and engines; returns at once. Call `settle` before weights change again."""
        probe = next((sample for sample in samples if sample.token_ids), None)
        if self._every and version % self._every == 0 and probe is not None:
            self._under_way = asyncio.create_task(self._compare(probe, version))
            await asyncio.sleep(0)  # so that the learner is asked before it is told to update again

    async def settle(self) -> None:
        """Wait for what is under way; raises EngineError if an engine does not have the weights."""
        if self._under_way is not None:
            task, self._under_way = self._under_way, None
            await task

    async def close(self) -> None:
        """Forget what is under way."""
        if self._under_way is not None:
            self._under_way.cancel()
            with suppress(asyncio.CancelledError, ActfirstError):
                await self._under_way

    def check_samples(self, samples: Sequence[TurnSample], stats: UpdateStats, version: int) -> None:
        """Raise EngineError if samples of the learner's own `version` do not have its log-probs."""
        if not self._every or not self._ratios or any(sample.version != version for sample in samples):
            return
        least, most, mean = (stats.extra.get(f"ratio_{name}", 1.0) for name in ("min", "max", "mean"))
        if max(1.0 - least, most - 1.0) > _RATIOS[self._half] or abs(mean - 1.0) > _MEAN_RATIO:
            raise EngineError(
                f"responses of version {version} were not sampled from the learner's weights of that version: ratios "
                f"from {least:.4f} to {most:.4f}, {mean:.4f} in the mean, at a lag of 0. An engine did not have the "
                "weights that it was given, or its log-probs are not those that it sampled from"
            )

    async def _compare(self, sample: TurnSample, version: int) -> None:
        prompt, tokens = sample.prompt_ids[-_PROMPT:], sample.token_ids[:_TOKENS]
        expected = -await self._learner.measure(as_samples([Example(prompt, tokens)]))
        found = {name: fmean(values) for name, values in (await self._scores(prompt, tokens)).items()}
        self.gap = max((abs(value - expected) for value in found.values()), default=0.0)
        for name, value in found.items():
            if not abs(value - expected) <= _TOLERANCE[self._half]:
                raise EngineError(
                    f"{name} does not have the weights of update {version}: {len(tokens)} tokens have a mean log-prob "
                    f"of {value:.5f} there and of {expected:.5f} in the learner. Nothing that it generates now is "
                    "on-policy; the run stops and can be resumed from its last checkpoint"
                )


def _precision(config: Config) -> str:
    both = {config.engine.dtype, config.learner.precision}
    return "float32" if both == {"float32"} else "bfloat16"
