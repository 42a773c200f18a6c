"""The contract of engines/base.py over a stepping loop: checks requests and weights, and hands them to the thread."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias

import numpy as np
import torch

from actfirst.config.engine_sections import EngineSection, TeacherSection
from actfirst.engines.base import Priority, Sampling
from actfirst.engines.stepping import Request, SteppingLoop
from actfirst.errors import EngineError
from actfirst.models.shapes import HEAD
from actfirst.records import Completion, EngineStats, Scores

IdArray: TypeAlias = np.ndarray[tuple[int], np.dtype[np.int64]]
Settings: TypeAlias = EngineSection | TeacherSection


def of_student(settings: Settings) -> EngineSection:
    """What only a student's section says; for a teacher's engine all of it is at its default."""
    return settings if isinstance(settings, EngineSection) else EngineSection()


@dataclass(frozen=True, slots=True)
class Limits:
    """What a model can be asked for, and the tensors that it is made of."""

    positions: int
    vocabulary: int
    tensors: Mapping[str, tuple[int, ...]]
    tied_embeddings: bool

    def ids(self, ids: Sequence[int], max_tokens: int) -> IdArray:
        """The ids as an array, if they are the model's and leave room for `max_tokens` more."""
        array: IdArray = np.array(ids, dtype=np.int64)
        if not len(array):
            raise EngineError("the prompt is empty: give at least one token")
        if len(array) + max_tokens > self.positions:
            raise EngineError(
                f"{len(array)} given tokens and {max_tokens} to generate exceed the model's {self.positions} positions"
            )
        if array.min() < 0 or array.max() >= self.vocabulary:
            raise EngineError(
                f"token ids {array.min()} to {array.max()} do not fit a vocabulary of {self.vocabulary}"
            )
        return array

    def check_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        """Raise EngineError unless `weights` are exactly the model's. Tied models need no head."""
        expected = dict(self.tensors)
        if self.tied_embeddings and HEAD not in weights:
            expected.pop(HEAD, None)
        missing, unexpected = sorted(set(expected) - set(weights)), sorted(set(weights) - set(expected))
        if missing or unexpected:
            raise EngineError(
                f"weights do not fit the model: {len(missing)} missing {missing[:3]}, "
                f"{len(unexpected)} unexpected {unexpected[:3]}"
            )
        for name, shape in expected.items():
            if tuple(weights[name].shape) != shape:
                raise EngineError(
                    f"weight {name} has shape {tuple(weights[name].shape)}, the model needs {shape}"
                )


def check_sampling(s: Sampling) -> None:
    if s.max_tokens < 1:
        raise EngineError(f"max_tokens is {s.max_tokens}: it must be at least 1")
    if not (s.temperature >= 0 and 0 < s.top_p <= 1 and s.top_k >= 0):
        raise EngineError(
            f"temperature {s.temperature}, top_p {s.top_p} and top_k {s.top_k} must satisfy "
            "temperature >= 0, 0 < top_p <= 1, top_k >= 0"
        )
    if "" in s.stop:
        raise EngineError("an empty stop string stops everything: leave it out")


class SteppedEngine(ABC, Generic[Request]):
    """Generates with and scores under one model; an engine says what its requests are. Close it: it owns a thread."""

    def __init__(self, loop: SteppingLoop[Request], limits: Limits) -> None:
        self._loop = loop
        self._limits = limits

    @abstractmethod
    def _generating(self, prompt: IdArray, sampling: Sampling, priority: Priority) -> Request:
        """A request to continue `prompt`."""

    @abstractmethod
    def _scoring(self, ids: IdArray, begin: int, alternatives: int) -> Request:
        """A request for the log-probs of `ids` from place `begin` on, each after all before it. `alternatives` is above
        0 only for an engine that lists some."""

    @property
    def version(self) -> int:
        return self._loop.version

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion:
        ids = self._limits.ids(prompt_ids, sampling.max_tokens)
        check_sampling(sampling)
        completion: Completion = await self._result(self._generating(ids, sampling, priority))
        return completion

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        return (await self._scores(prompt_ids, token_ids)).logprobs

    async def _scores(
        self, prompt_ids: Sequence[int], token_ids: Sequence[int], alternatives: int = 0
    ) -> Scores:
        if not prompt_ids:
            raise EngineError("cannot score after an empty prompt: the first token would have no context")
        if not token_ids:
            return Scores(())
        ids = self._limits.ids([*prompt_ids, *token_ids], 0)
        scores: Scores = await self._result(self._scoring(ids, len(prompt_ids), alternatives))
        return scores

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        """Install new weights; `engine.swap` says when. They must not change until this returns."""
        self._limits.check_weights(weights)
        await self._loop.load(weights, version)

    def stats(self) -> EngineStats:
        return self._loop.stats()

    async def close(self) -> None:
        """End the thread; what is pending fails. Closing twice is fine."""
        self._loop.close()
        while self._loop.thread.is_alive():  # noqa: ASYNC110 (a thread cannot be awaited)
            await asyncio.sleep(0.002)

    async def _result(self, request: Request) -> Any:
        self._loop.ask(request)
        try:
            return await request.future
        except asyncio.CancelledError:
            self._loop.cancel(request)
            raise
