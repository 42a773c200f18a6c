"""A request inside the engine: the tokens to compute first, and what became of it so far."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from actfirst.engines.base import Priority, Sampling
from actfirst.engines.token_text import TokenText
from actfirst.records import StopReason

IdArray = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(slots=True, eq=False, kw_only=True)
class Sequence:
    """What generating and scoring have in common.

    `ids` are computed first ("prefilled"), `computed` of them are in the slot. Logits are wanted from the last
    prompt token on. `keys` name the full blocks of the prompt in the prefix cache; empty without one.
    """

    ids: IdArray
    prompt_length: int
    priority: Priority
    keys: tuple[bytes, ...]
    future: asyncio.Future[Any]
    slot: int = -1
    computed: int = 0
    deferred: bool = False
    logprobs: list[float] = field(default_factory=list)

    @property
    def prefilled(self) -> bool:
        return self.computed >= len(self.ids)

    @property
    def stored(self) -> int:
        """How many positions of the slot are in use."""
        return self.computed


@dataclass(slots=True, eq=False, kw_only=True)
class Generation(Sequence):
    """A request to generate. `watch` holds the tokens that may end it: all others need no closer look."""

    sampling: Sampling
    watch: frozenset[int]
    draw: Callable[[], float]
    tokens: list[int] = field(default_factory=list)
    stop_reason: StopReason = StopReason.LENGTH

    @property
    def stored(self) -> int:
        # The newest token is computed in the next step only.
        return self.computed + max(0, len(self.tokens) - 1)


@dataclass(slots=True, eq=False, kw_only=True)
class Scoring(Sequence):
    """A request to score `targets`; `ids` are the prompt and all of them but the last."""

    targets: IdArray


@dataclass(frozen=True, slots=True)
class Stopping:
    """What ends a generation beside its length: end-of-sequence ids, and stop strings if the bytes of tokens
    are known."""

    eos_ids: frozenset[int]
    tokens: TokenText | None

    def watch(self, stops: tuple[str, ...]) -> frozenset[int]:
        if not stops or self.tokens is None:
            return self.eos_ids
        return self.eos_ids.union(*(self.tokens.may_complete(stop) for stop in stops))

    def reason(self, sequence: Generation) -> StopReason | None:
        """Why `sequence` ends with its newest token, or None."""
        tokens, sampling = sequence.tokens, sequence.sampling
        if tokens[-1] in self.eos_ids:
            return StopReason.EOS
        if self.tokens is not None and self.tokens.ends_with_stop(tokens, sampling.stop):
            return StopReason.STOP_STRING
        return StopReason.LENGTH if len(tokens) >= sampling.max_tokens else None


def uniform_stream(seed: int | None) -> Callable[[], float]:
    """A stream of uniform numbers in [0, 1) that depends on the seed alone; None takes an arbitrary seed."""
    return random.Random(seed).random
