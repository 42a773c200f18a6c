"""What is asked of vLLM and what comes back, in our words; `Core` is the part that vLLM plays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from actfirst.engines.base import Priority, Sampling
from actfirst.records import StopReason

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class Generating:
    """Continue `prompt`."""

    prompt: tuple[int, ...]
    sampling: Sampling
    priority: Priority


@dataclass(frozen=True, slots=True)
class Scoring:
    """Score the tokens of `ids` from place `begin` on, each after all before it."""

    ids: tuple[int, ...]
    begin: int
    priority: Priority = Priority.FULL


Work = Generating | Scoring


class Received(dict[str, "torch.Tensor"]):
    """Weights that this process does not have: vLLM's workers have received them as this version."""

    def __init__(self, version: int) -> None:
        super().__init__()
        self.version = version


@dataclass(frozen=True, slots=True)
class Finished:
    """The end of a piece of work: generated tokens (none when scoring), log-probs, and what it cost."""

    name: str
    tokens: tuple[int, ...]
    logprobs: tuple[float, ...]
    stop_reason: StopReason
    prefilled: int
    cached: int


@dataclass(frozen=True, slots=True)
class Failed:
    """A piece of work that vLLM gave up after it had taken it, while all others go on."""

    name: str
    reason: str


class Refused(Exception):
    """A piece of work that vLLM does not take. Nothing else is affected."""


class Core(Protocol):
    """Everything is called from one thread, after construction."""

    def start(self, name: str, work: Work) -> None:
        """Raises `Refused` where only this piece of work is at fault."""
        ...

    def cancel(self, name: str) -> None: ...

    def step(self) -> list[Finished | Failed]: ...

    def install(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Replace all weights. What is under way goes on with the new ones; what starts finds no cache of the old."""
        ...

    def close(self) -> None: ...
