"""The contract of an inference engine: token ids in; token ids, sampling log-probs and a stop reason out.

Every engine passes one contract suite (tests/engines/contract.py). Rules that the suite proves:
- `logprobs` are those of the distribution actually sampled (after temperature, top-p and top-k);
- a completion's tokens all come from one policy version, the one it is stamped with;
- with a seed, a request's result does not depend on what else is in the batch;
- the token that completes a stop string is kept, nothing follows it; an EOS token is kept as the last token;
- cancelling the awaiting task cancels the request and frees its place;
- `load_weights` lets running requests finish, then swaps, then admits what is waiting; prefix caches are
  invalidated. Requests accepted before the call but not yet started run on the new weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol

from actfirst.records import Completion

if TYPE_CHECKING:
    import torch


class Priority(IntEnum):
    """Lower goes first: fast actions gate the environment, full responses do not."""

    FAST = 0
    FULL = 1


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw tokens. temperature 0 is greedy; top_k 0 disables it; seed None means an arbitrary one."""

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop: tuple[str, ...] = ()
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Counters since the engine started, and what is in it now."""

    requests: int
    prefilled_tokens: int
    cached_tokens: int
    generated_tokens: int
    scored_tokens: int
    steps: int
    busy_seconds: float
    running: int
    waiting: int


class Engine(Protocol):
    """A student's engine generates; a teacher's engine only scores. Both are this."""

    @property
    def version(self) -> int: ...

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion: ...

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        """Log-probs (temperature 1) of `token_ids` after `prompt_ids`, one per token."""
        ...

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Install new weights (names of the Hugging Face state dict) as policy `version`."""
        ...

    def stats(self) -> EngineStats: ...

    async def close(self) -> None: ...
