"""The contract of an inference engine: token ids in; token ids, sampling log-probs and a stop reason out.

Every engine passes one contract suite (tests/engines/contract.py). Rules that the suite proves:
- `logprobs` are those of the distribution actually sampled (after temperature, top-p and top-k);
- a completion is stamped with one policy version, and all its tokens come from that one unless weights are swapped
  "in_flight" (below);
- with a seed, a request's result does not depend on what else is in the batch, nor on a draft;
- the token that completes a stop string is kept, nothing follows it; an EOS token is kept as the last token;
- cancelling the awaiting task cancels the request and frees its place;
- after `load_weights` has returned, every request runs on the new weights; so do those that were accepted before but
  have not begun. Prefix caches are invalidated. What becomes of requests that have begun is the engine's `swap`:
  "drain" lets them finish on the old weights, and begins nothing until then;
  "beside" lets them finish on the old weights, while others begin on the new ones;
  "in_flight" lets them go on with the new weights and the keys and values that they have. Each log-prob is still
  that of the distribution actually sampled. Such a completion is stamped with the version on which it began.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from actfirst.records import Completion, EngineStats, Scores

if TYPE_CHECKING:
    import torch

    from actfirst.engines.weight_group import Entry


class Priority(IntEnum):
    """Lower goes first: fast actions gate the environment, full responses do not."""

    FAST = 0
    FULL = 1


@dataclass(frozen=True, slots=True)
class Draft:
    """Outputs that a caller expects, so that an engine can verify many tokens in one pass.

    A draft is a hint: tokens and log-probs are those of plain sampling whatever it holds, and an engine may
    ignore it. `likely` is one whole output. `possible` are outputs of which one is expected, in sorted order:
    where `likely` no longer fits, the tokens that all of them share next are drafted.
    """

    likely: tuple[int, ...] = ()
    possible: tuple[tuple[int, ...], ...] = ()

    def after(self, tokens: Sequence[int]) -> tuple[int, ...]:
        """The tokens expected to follow `tokens`; empty where the draft has nothing to say."""
        given, length = tuple(tokens), len(tokens)
        if len(self.likely) > length and self.likely[:length] == given:
            return self.likely[length:]

        def beginning(option: tuple[int, ...]) -> tuple[int, ...]:
            return option[:length]

        first = bisect_left(self.possible, given, key=beginning)
        last = bisect_right(self.possible, given, lo=first, key=beginning) - 1
        if last < first:
            return ()
        # In sorted order, what the first and the last have in common is common to all between them.
        one, other = self.possible[first][length:], self.possible[last][length:]
        return one[: next((i for i, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to draw tokens. temperature 0 is greedy; top_k 0 disables it; seed None means an arbitrary one.

    With `ignore_eos` an EOS token is one like any other: without stop strings, the completion then has exactly
    `max_tokens` tokens. For measurements.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop: tuple[str, ...] = ()
    seed: int | None = None
    draft: Draft | None = None
    ignore_eos: bool = False


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


@runtime_checkable
class Listing(Protocol):
    """An engine that can say what it would rather have said: `alternatives` tokens at each place that it scores."""

    async def scores(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], alternatives: int
    ) -> Scores: ...


@runtime_checkable
class Receiving(Protocol):
    """An engine whose own workers take weights from a broadcast (`weight_group.py`), so that this process never has
    them. What is under way goes on with the old weights until `load_received`."""

    async def join(self, address: str, rank: int, size: int) -> None:
        """All workers become members of a group, with ranks from `rank` on."""
        ...

    async def receive(self, entries: Sequence[Entry], dtype: str, version: int) -> None:
        """Take the weights of a version from the next broadcast of the group."""
        ...

    async def load_received(self, version: int) -> None:
        """As `load_weights`, with what the workers have received."""
        ...
