"""Engines and teachers whose answers a test writes down."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import torch

from actfirst.engines.base import Priority, Sampling
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Completion, EngineStats, Response, Scores, StopReason


@dataclass(frozen=True)
class Request:
    """One generate call as the engine saw it."""

    text: str
    ids: tuple[int, ...]
    sampling: Sampling
    priority: Priority

    @property
    def is_fast(self) -> bool:
        return self.sampling.stop == ("</action>",)

    @property
    def is_inverse_dynamics(self) -> bool:
        return "MISSING CURRENT ACTION" in self.text


Script = Callable[[Request], str]


@dataclass
class ScriptedEngine:
    """Answers every request with the text that `script` returns; `delay(request)` seconds later."""

    encoder: PromptEncoder
    script: Script
    delay: Callable[[Request], float] = lambda request: 0.0
    version: int = 0
    requests: list[Request] = field(default_factory=list)
    scored: list[str] = field(default_factory=list)

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion:
        request = Request(self.encoder.decode(prompt_ids), tuple(prompt_ids), sampling, priority)
        self.requests.append(request)
        version = self.version
        await asyncio.sleep(self.delay(request))
        ids = self.encoder.encode_markup(self.script(request))[: sampling.max_tokens]
        stop = StopReason.STOP_STRING if request.is_fast else StopReason.EOS
        reason = StopReason.LENGTH if len(ids) == sampling.max_tokens else stop
        return Completion(tuple(ids), (-1.0,) * len(ids), reason, version)

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        self.scored.append(self.encoder.decode(prompt_ids))
        return (-1.0,) * len(token_ids)

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        self.version = version

    def stats(self) -> EngineStats:
        return EngineStats(len(self.requests), 0, 0, 0, 0, 0, 0.0, 0, 0)

    async def close(self) -> None:
        return None


@dataclass
class ScriptedTeacher:
    """Likes every token equally; remembers what it was asked to score."""

    scored: list[Response] = field(default_factory=list)

    async def score(self, response: Response) -> Scores:
        self.scored.append(response)
        return Scores((-0.5,) * len(response.token_ids))

    def busy_seconds(self) -> float:
        return 0.0
