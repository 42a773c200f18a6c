"""An episode of verifiers, held at every turn of its seat.

There the environment drives: its `run` asks an agent for a reply, turn by turn. Here the agent drives. So `run` goes on
in a task of its own, with a stand-in for the agent that waits until the student's action is there.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import Any

import verifiers.v1 as vf
from verifiers.v1.agent import Segment
from verifiers.v1.graph import MessageNode
from verifiers.v1.state import state_cls
from verifiers.v1.trace import AgentInfo, TraceTask
from verifiers.v1.utils.decorators import invoke_all

OPENING = "The task begins."
"""What is seen first where the task itself is the instruction, and the agent has the first word."""


class HeldEpisode:
    """One episode under way. `told` is None once it is over, and `reward` is then known."""

    def __init__(self, environment: Any, seat: str, task: Any) -> None:
        self._environment, self._seat, self._task = environment, seat, task
        self._told: asyncio.Queue[str] = asyncio.Queue()
        self._replies: asyncio.Queue[str] = asyncio.Queue()
        self._traces: list[Any] = []
        self._running: asyncio.Task[None] | None = None

    @property
    def reward(self) -> float:
        return float(self._traces[-1].reward) if self._traces else 0.0

    async def begin(self) -> str | None:
        self._running = asyncio.create_task(self._run())
        return await self._next()

    async def reply(self, action: str) -> str | None:
        """What the environment says next."""
        self._replies.put_nowait(action)
        return await self._next()

    async def end(self) -> None:
        if self._running is not None:
            self._running.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._running

    async def ask(self, text: str) -> str:
        """Called by the seat: show a text to the student, and wait for its action."""
        self._told.put_nowait(text)
        return await self._replies.get()

    async def _next(self) -> str | None:
        assert self._running is not None
        told = asyncio.create_task(self._told.get())
        try:
            await asyncio.wait({told, self._running}, return_when=asyncio.FIRST_COMPLETED)
            if told.done():
                return told.result()
            self._running.result()  # raises what the environment raised
            return None
        finally:
            told.cancel()

    async def _run(self) -> None:
        environment, task = self._environment, self._task
        agents = SimpleNamespace(**{self._seat: _Seat(self, self._seat, self._traces)})
        await environment.setup(agents)
        await environment.run(task, agents)
        episode: Any = vf.Episode(task=_named(task), traces=self._traces, ok=True)
        await environment.finalize(task, episode)


class _Seat:
    """What an environment sees of the student: the part of verifiers' `Agent` that needs no model behind it."""

    def __init__(self, episode: HeldEpisode, name: str, traces: list[Any]) -> None:
        self.name = name
        self.trainable = True
        self._episode = episode
        self._traces = traces

    @asynccontextmanager
    async def interaction(self, task: Any) -> AsyncIterator[_Interaction]:
        agent = AgentInfo(config=vf.AgentConfig(), name=self.name, trainable=self.trainable)
        trace: Any = vf.Trace(task=_named(task), agent=agent, state=state_cls(type(task))())
        self._traces.append(trace)
        await task.setup(trace, None)
        yield _Interaction(self._episode, task, trace)
        trace.stop("user_closed")
        await task.finalize(trace, None)
        await task.score(trace)
        trace.ok = True

    async def run(self, task: Any) -> Any:
        """One reply to the task's prompt."""
        async with self.interaction(task) as interaction:
            await interaction.turn()
        return interaction.trace


class _Interaction:
    def __init__(self, episode: HeldEpisode, task: Any, trace: Any) -> None:
        self.trace = trace
        self._episode = episode
        self._task = task

    async def turn(self, message: str | None = None) -> Segment:
        """Say something to the student; a bare turn lets it speak first."""
        if self.trace.is_completed:
            return Segment(messages=[], terminated=True)
        shown = message if message is not None else self._task.data.prompt_text
        self._add(vf.UserMessage(content=shown), sampled=False)
        reply = vf.AssistantMessage(
            content=await self._episode.ask(message if message is not None else OPENING)
        )
        self._add(reply, sampled=True)
        stops = self._task.hooks("stop")
        answers = await invoke_all(stops, {"task": self._task.data, "trace": self.trace})
        for stop, ended in zip(stops, answers, strict=True):
            if ended:
                self.trace.stop(stop.__name__)
        return Segment(messages=[reply])

    def _add(self, message: Any, *, sampled: bool) -> None:
        nodes = self.trace.nodes
        nodes.append(MessageNode(parent=len(nodes) - 1 if nodes else None, message=message, sampled=sampled))


def _named(task: Any) -> Any:
    return TraceTask(type=type(task).__name__, data=task.data, key=task.key, hash=task.hash)
