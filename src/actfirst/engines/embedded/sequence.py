"""A request inside the engine: the tokens to compute first, and what became of it so far."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from typing import Any

from actfirst.engines.base import Priority, Sampling
from actfirst.engines.stepped import IdArray
from actfirst.models.token_text import TokenText
from actfirst.records import Alternatives, Completion, Scores, StopReason


@dataclass(slots=True, eq=False, kw_only=True)
class Sequence:
    """What generating and scoring have in common.

    `ids` are computed first ("prefilled"), `computed` of them are in the slot. Logits are wanted from the last
    prompt token on. `keys` name the full blocks of the prompt in the prefix cache; empty without one. `drafted`
    are the tokens that the next step verifies after what is already certain. `admitted` is when it got a slot, and
    `version` that of the weights then.
    """

    ids: IdArray
    prompt_length: int
    priority: Priority
    keys: tuple[bytes, ...]
    future: asyncio.Future[Any]
    slot: int = -1
    computed: int = 0
    deferred: bool = False
    admitted: float = 0.0
    version: int = -1
    drafted: tuple[int, ...] = ()
    logprobs: list[float] = field(default_factory=list)

    @property
    def prefilled(self) -> bool:
        return self.computed >= len(self.ids)

    @property
    def stored(self) -> int:
        """How many positions of the slot are in use."""
        return self.computed

    def result(self) -> Completion | Scores:
        """What its caller gets when it has ended."""
        raise NotImplementedError


@dataclass(slots=True, eq=False, kw_only=True)
class Generation(Sequence):
    """A request to generate. `watch` holds the tokens that may end it: all others need no closer look."""

    sampling: Sampling
    watch: frozenset[int]
    uniforms: Uniforms
    tokens: list[int] = field(default_factory=list)
    stop_reason: StopReason = StopReason.LENGTH

    @property
    def stored(self) -> int:
        # The newest token is computed in the next step only.
        return self.computed + max(0, len(self.tokens) - 1)

    def result(self) -> Completion:
        return Completion(tuple(self.tokens), tuple(self.logprobs), self.stop_reason, self.version)

    def draft(self) -> None:
        """Decide what the next step verifies. One more token always comes out of it, so a place is left for it."""
        if self.sampling.draft is not None:
            room = self.sampling.max_tokens - len(self.tokens) - 1
            self.drafted = self.sampling.draft.after(self.tokens)[:room] if room > 0 else ()


@dataclass(slots=True, eq=False, kw_only=True)
class Scoring(Sequence):
    """A request to score `targets`; `ids` are the prompt and all of them but the last. `wanted` alternatives are
    listed at each place."""

    targets: IdArray
    wanted: int = 0
    other_ids: list[int] = field(default_factory=list)
    other_logprobs: list[float] = field(default_factory=list)

    def result(self) -> Scores:
        return Scores(tuple(self.logprobs), Alternatives(tuple(self.other_ids), tuple(self.other_logprobs)))


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
        if tokens[-1] in self.eos_ids and not sampling.ignore_eos:
            return StopReason.EOS
        if self.tokens is not None and self.tokens.ends_with_stop(tokens, sampling.stop):
            return StopReason.STOP_STRING
        return StopReason.LENGTH if len(tokens) >= sampling.max_tokens else None


class Uniforms:
    """Uniform numbers in [0, 1) that depend on the seed alone; None takes an arbitrary seed.

    One number belongs to each emitted token. Verifying a draft looks ahead, and uses what it emits: a token is
    drawn with the same number with and without a draft.
    """

    __slots__ = ("_ahead", "_next")

    def __init__(self, seed: int | None) -> None:
        self._next = random.Random(seed).random
        self._ahead: list[float] = []

    def next(self) -> float:
        """The next number, used."""
        return self._ahead.pop(0) if self._ahead else self._next()

    def ahead(self, count: int) -> list[float]:
        """The next `count` numbers, still unused."""
        while len(self._ahead) < count:
            self._ahead.append(self._next())
        return self._ahead[:count]

    def use(self, count: int) -> None:
        del self._ahead[:count]
