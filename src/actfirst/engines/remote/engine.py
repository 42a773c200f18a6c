"""The contract of engines/base.py over servers that somebody else runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from actfirst.config.engine_sections import ServerSection
from actfirst.engines.base import Priority, Sampling
from actfirst.engines.remote import wire
from actfirst.engines.remote.client import Client, NotThere
from actfirst.engines.remote.replicas import Replica
from actfirst.errors import EngineError, TeacherError
from actfirst.records import Completion, EngineStats

if TYPE_CHECKING:
    import torch

_PROBE = (1, 2)  # any two ids: only the form of the answer counts


@dataclass(frozen=True, slots=True)
class Served:
    """What the servers said about themselves. `positions` is None where none of them says."""

    dialect: wire.Dialect
    positions: int | None


class RemoteEngine:
    """Scores with, and generates from, a model on servers that are equal replicas of it."""

    def __init__(self, server: ServerSection, model: str, max_concurrency: int = 256) -> None:
        self.model = model
        self.client = Client(server, max_concurrency)
        self._served: Served | None = None
        self._asking = asyncio.Lock()
        self._closed = False
        self._requests = self._answered = self._under_way = 0
        self._generated = self._scored = self._prompted = 0
        self._busy, self._since = 0.0, 0.0

    @property
    def version(self) -> int:
        return 0

    async def served(self) -> Served:
        """Ask every server once: it must serve the model and return prompt log-probs."""
        async with self._asking:
            if self._served is None:
                found = [await self._examine(replica) for replica in self.client.replicas.all]
                if len({server.dialect.name for server in found}) > 1:
                    raise TeacherError("the teacher's servers are of different kinds; use one kind")
                known = [server.positions for server in found if server.positions is not None]
                self._served = Served(found[0].dialect, min(known, default=None))
        return self._served

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        if not prompt_ids:
            raise EngineError("cannot score after an empty prompt: the first token would have no context")
        if not token_ids:
            return ()
        async with self._request():
            scored = await self.score_all([*prompt_ids, *token_ids])
        self._scored += len(token_ids)
        self._prompted += len(prompt_ids)
        return scored.logprobs[len(prompt_ids) - 1 :]

    async def score_all(
        self, ids: Sequence[int], temperature: float = 1.0, only: Replica | None = None
    ) -> wire.ScoredPrompt:
        """Log-probs (and texts, if given) of a whole sequence. For proofs: `score` is what training uses."""
        dialect = (await self.served()).dialect
        body = dialect.request(self.model, ids, temperature)
        return await self.client.ask(wire.COMPLETIONS, body, lambda answer: dialect.read(answer, ids), only)

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion:
        """The log-probs are those that the server reports: vLLM's default is the model's own distribution."""
        if not prompt_ids:
            raise EngineError("the prompt is empty: give at least one token")
        async with self._request():
            body = wire.generation_request(self.model, prompt_ids, sampling)
            completion = await self.client.ask(
                wire.COMPLETIONS, body, lambda answer: wire.read_completion(answer, sampling.max_tokens)
            )
        self._generated += len(completion.token_ids)
        self._prompted += len(prompt_ids)
        return completion

    async def tokenize(self, text: str, only: Replica) -> tuple[int, ...] | None:
        """The server's ids of `text`, or None where it has no route for that."""
        body = wire.tokenize_request(self.model, text)
        try:
            return await self.client.ask(wire.TOKENIZE, body, wire.read_tokens, only)
        except NotThere:
            return None

    async def load_weights(self, weights: Mapping[str, torch.Tensor], version: int) -> None:
        raise EngineError("the weights of a teacher's server are not ours to change")

    def stats(self) -> EngineStats:
        running = sum(replica.running for replica in self.client.replicas.all)
        return EngineStats(
            requests=self._requests,
            prefilled_tokens=self._prompted,
            cached_tokens=0,
            generated_tokens=self._generated,
            scored_tokens=self._scored,
            steps=self._answered,
            busy_seconds=self._busy + (time.monotonic() - self._since if self._under_way else 0.0),
            running=running,
            waiting=max(0, self._under_way - running),
        )

    async def close(self) -> None:
        self._closed = True
        await self.client.close()

    @asynccontextmanager
    async def _request(self) -> AsyncIterator[None]:
        """Counts a request; the engine is busy as long as any is under way."""
        if self._closed:
            raise EngineError("the engine is closed")
        if not self._under_way:
            self._since = time.monotonic()
        self._requests += 1
        self._under_way += 1
        try:
            yield
            self._answered += 1
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._busy += time.monotonic() - self._since

    async def _examine(self, replica: Replica) -> Served:
        models = await self.client.ask(wire.MODELS, None, wire.read_models, replica)
        listed = {model.name: model for model in models}
        if self.model not in listed:
            raise TeacherError(
                f"{replica.url} does not serve {self.model!r}; set models.teacher to what it serves: "
                f"{', '.join(listed) or 'nothing'}"
            )
        for dialect in wire.DIALECTS:
            body = dialect.request(self.model, _PROBE)
            try:
                logprobs = await self.client.ask(wire.COMPLETIONS, body, _support(dialect), replica)
            except NotThere:
                raise
            except TeacherError:
                continue  # it refuses the parameters of this dialect
            if logprobs:
                return Served(dialect, listed[self.model].positions)
        raise TeacherError(
            f"{replica.url} returns no log-probs of prompts, neither by prompt_logprobs nor by echo; distillation "
            "needs them: use a server that does, such as vLLM"
        )


def _support(dialect: wire.Dialect) -> wire.Reader:
    """Whether an answer holds what the dialect asks for: a server that ignores a parameter is no failure."""

    def read(answer: wire.Json) -> bool:
        try:
            return bool(dialect.read(answer, _PROBE).logprobs)
        except wire.Malformed:
            return False

    return read
