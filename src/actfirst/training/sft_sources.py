"""Reads demonstrations for supervised fine-tuning: files of several shapes in, trajectories and pairs out.

A trajectory is a list of actions in a task, with full responses where somebody stored them: it becomes examples when it
is replayed (`sft_examples.py`). A chat, or a prompt with its response, is an example as it stands. Everything read
keeps the file and line that it stood on; a line that cannot be used is an error that names both.
"""

from __future__ import annotations

import glob
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from actfirst.config.teacher_sections import SftDataSection
from actfirst.environments.base import World
from actfirst.environments.registry import Kind
from actfirst.errors import DataError
from actfirst.policy.parsing import ACTION, END_ACTION, END_THINK, THINK
from actfirst.reading import Unreadable, parse_json, unpacked
from actfirst.records import ActionSource, Task
from actfirst.references.sources import match_task, unique_tails
from actfirst.references.store import ReferenceStore
from actfirst.runs.episodes import EpisodeLine, TurnLine
from actfirst.runs.record import first_fault
from actfirst.runs.run_folder import EPISODES, saved_config

_ASSISTANTS = frozenset(("assistant", "gpt", "agent", "model"))
_ROLES = {"human": "user", **dict.fromkeys(_ASSISTANTS, "assistant")}
_NAMES = ("task_id", "game_file", "gamefile", "game", "task", "file", "path", "id")
_ACTIONS = ("actions", "action_list", "action_sequence", "trajectory")


@dataclass(frozen=True, slots=True)
class Trajectory:
    """Actions in a task. None: whoever replays it asks the world's demonstrator for each action.

    `responses` are the texts by which the actions were chosen, without an end mark, None where there is none.
    `observations` are what was seen before each action, where that is known. `reasoned` asks the demonstrator for the
    reasons of the actions; `shown_by` says where its walk strays, and at which stages a novice shows what to do.
    """

    origin: str
    task: Task
    actions: tuple[str, ...] | None
    responses: tuple[str | None, ...] = ()
    observations: tuple[str, ...] = ()
    reasoned: bool = False
    shown_by: SftDataSection | None = None
    strays: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """A prompt as chat messages, and the response to it."""

    origin: str
    messages: tuple[Mapping[str, str], ...]
    response: str


@dataclass
class Source:
    """What one entry of `sft.data` holds, and why some of it is left out."""

    name: str
    settings: SftDataSection
    trajectories: list[Trajectory] = field(default_factory=list)
    written: list[Written] = field(default_factory=list)
    dropped: Counter[str] = field(default_factory=Counter)


def read_source(settings: SftDataSection, kind: Kind, world: World) -> Source:
    """Everything of one source that its filters can tell without a replay."""
    source = Source(f"{settings.kind} {settings.path}".strip(), settings)
    _READERS[settings.kind](source, kind, world)
    if not source.trajectories and not source.written:
        raise DataError(f"{source.name}: nothing to fine-tune on{_because(source.dropped)}")
    return source


def full_response(reasoning: str, action: str) -> str:
    """A full response as the prompts ask for it, without its end mark."""
    return f"{THINK}\n{reasoning}\n{END_THINK}\n\n{action_text(action)}"


def action_text(action: str) -> str:
    return f"{ACTION}{action}{END_ACTION}"


def _because(dropped: Mapping[str, int]) -> str:
    return f" ({', '.join(f'{count} x {reason}' for reason, count in dropped.items())})" if dropped else ""


def _chosen(source: Source, world: World) -> dict[str, Task]:
    tasks = world.tasks(source.settings.split)
    return {task.id: task for task in tasks[: source.settings.tasks or len(tasks)]}


def _run(source: Source, kind: Kind, world: World) -> None:
    """Full responses are taken where their action was executed; deferred ones say what would have been."""
    folder, tasks = Path(source.settings.path).expanduser(), _chosen(source, world)
    saved_config(folder)
    for origin, data in _lines(folder / EPISODES):
        try:
            line = EpisodeLine.model_validate(data)
        except ValidationError as error:
            raise DataError(f"{origin} is no episode: {first_fault(error)}") from None
        if line.task.id not in tasks:
            source.dropped["another split"] += 1
        elif source.settings.success and not line.success:
            source.dropped["not successful"] += 1
        elif line.score < source.settings.least_score:
            source.dropped["score too low"] += 1
        elif not line.turns:
            source.dropped["no turns"] += 1
        else:
            source.trajectories.append(
                Trajectory(
                    origin,
                    tasks[line.task.id],
                    tuple(turn.action for turn in line.turns),
                    tuple(map(_inline_response, line.turns)),
                    tuple(turn.observation for turn in line.turns),
                )
            )


def _inline_response(turn: TurnLine) -> str | None:
    """None where the thinking budget inserted text, which nobody should learn to write, and where it cut the end."""
    response = turn.response
    if turn.source is not ActionSource.THINK or response is None:
        return None
    if response.requests > 1 or response.truncated or response.action != turn.action:
        return None
    return response.text


def _rollouts(source: Source, kind: Kind, world: World) -> None:
    tasks = _chosen(source, world)
    for origin, data in _lines(_rollout_file(Path(source.settings.path).expanduser())):
        record = _Fields(origin, data)
        task_id, actions = record.text("task_id"), record.texts("actions")
        responses = record.optional_texts("responses")
        if responses and len(responses) != len(actions):
            raise DataError(f"{origin}: {len(responses)} responses for {len(actions)} actions")
        if task_id not in tasks:
            source.dropped["another split"] += 1
        elif not actions:
            source.dropped["scored nothing"] += 1
        else:
            source.trajectories.append(Trajectory(origin, tasks[task_id], actions, responses))


def _rollout_file(path: Path) -> Path:
    """The file itself, or the one beside the reference store of that name."""
    beside = sorted(path.parent.glob(f"{glob.escape(path.name)}.rollouts-*.jsonl"))
    if len(beside) > 1:
        raise DataError(
            f"several models have rollouts beside {path}: name one of {', '.join(map(str, beside))}"
        )
    return beside[0] if beside else path


def _references(source: Source, kind: Kind, world: World) -> None:
    path, tasks = Path(source.settings.path).expanduser(), _chosen(source, world)
    store = ReferenceStore.open(path, world)
    for task in tasks.values():
        reference = store.get(task)
        if reference is None:
            source.dropped["no reference"] += 1
        else:
            actions = tuple(step.action for step in reference.steps)
            reasoned = kind.sources.demonstrator is not None
            source.trajectories.append(Trajectory(f"{path}, task {task.id}", task, actions, reasoned=reasoned))


def _demonstrator(source: Source, kind: Kind, world: World) -> None:
    if kind.sources.demonstrator is None:
        raise DataError(
            f'{world.name} has no demonstrator; take sft.data of kind = "run", "rollouts" or a file'
        )
    settings = source.settings
    if settings.unlearned and kind.sources.novice is None:
        raise DataError(f"{world.name} has no novice; leave sft.data.unlearned empty")
    for task in _chosen(source, world).values():
        for walk in range(1, settings.walks + 1):
            again = f", walk {walk}" if walk > 1 else ""
            origin = f"demonstrator, task {task.id}{again}"
            source.trajectories.append(
                Trajectory(origin, task, None, reasoned=True, shown_by=settings, strays=walk > 1)
            )


def _action_lists(source: Source, kind: Kind, world: World) -> None:
    tasks = _chosen(source, world)
    tails = unique_tails(tasks.values())
    for origin, data in _lines(Path(source.settings.path).expanduser()):
        record = _Fields(origin, data)
        key = next((key for key in _ACTIONS if key in record.data), _ACTIONS[0])
        actions = record.texts(key)
        named = [str(record.data[name]) for name in _NAMES if name in record.data]
        if not named:
            raise DataError(f"{origin} names no task: one of {', '.join(_NAMES)} must say which")
        found = next((task for name in named if (task := match_task(name, tails))), None)
        if found is None:
            source.dropped["no such task in the split"] += 1
        elif not actions:
            source.dropped["no actions"] += 1
        else:
            source.trajectories.append(Trajectory(origin, tasks[found], actions))


def _chats(source: Source, kind: Kind, world: World) -> None:
    """Every answer of a chat is an example; what stands before it is its prompt."""
    for origin, data in _lines(Path(source.settings.path).expanduser()):
        record = _Fields(origin, data)
        if not _passes(source, record):
            continue
        messages = record.messages()
        answers = [place for place, message in enumerate(messages) if message["role"] == "assistant"]
        if not answers or answers[0] == 0:
            raise DataError(f"{origin}: the chat needs an assistant message, and a user message before it")
        for place in answers:
            source.written.append(Written(origin, messages[:place], messages[place]["content"]))


def _pairs(source: Source, kind: Kind, world: World) -> None:
    for origin, data in _lines(Path(source.settings.path).expanduser()):
        record = _Fields(origin, data)
        if _passes(source, record):
            prompt = {"role": "user", "content": record.text("prompt")}
            source.written.append(Written(origin, (prompt,), record.text("response")))


def _passes(source: Source, record: _Fields) -> bool:
    """What a file says of itself: texts cannot be replayed. Without success or score, a record passes."""
    success, score = record.data.get("success"), record.data.get("score")
    if source.settings.success and success is False:
        source.dropped["not successful"] += 1
        return False
    if isinstance(score, int | float) and score < source.settings.least_score:
        source.dropped["score too low"] += 1
        return False
    return True


_READERS: dict[str, Callable[[Source, Kind, World], None]] = {
    "run": _run,
    "rollouts": _rollouts,
    "references": _references,
    "demonstrator": _demonstrator,
    "actions": _action_lists,
    "chat": _chats,
    "pairs": _pairs,
}


def _lines(path: Path) -> Iterator[tuple[str, Any]]:
    """The JSON of every line that is not blank, and where it stands."""
    try:
        lines = unpacked(path).split(b"\n")
    except Unreadable as error:
        raise DataError(f"cannot read {path}: {error}") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            origin = f"{path}, line {number}"
            try:
                yield origin, parse_json(line)
            except Unreadable as error:
                raise DataError(f"{origin} cannot be read: {error}") from None


class _Fields:
    """The fields of one record; raises DataError for what is missing or of another kind."""

    def __init__(self, origin: str, data: object) -> None:
        if not isinstance(data, dict):
            raise DataError(f"{origin} is no JSON object")
        self.origin = origin
        self.data: dict[str, object] = data

    def text(self, key: str) -> str:
        value = self.data.get(key)
        if not isinstance(value, str) or not value:
            raise DataError(f"{self.origin}: {key!r} must be a text, and is {json.dumps(value)[:60]}")
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        value = self.data.get(key)
        if isinstance(value, list):
            value = [item.get("action") if isinstance(item, dict) else item for item in value]
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise DataError(f"{self.origin}: {key!r} must be a list of texts, and is {json.dumps(value)[:60]}")
        return tuple(value)

    def optional_texts(self, key: str) -> tuple[str | None, ...]:
        value = self.data.get(key, [])
        if not isinstance(value, list) or not all(item is None or isinstance(item, str) for item in value):
            raise DataError(f"{self.origin}: {key!r} must be a list of texts or nulls")
        return tuple(value)

    def messages(self) -> tuple[Mapping[str, str], ...]:
        value = self.data.get("messages", self.data.get("conversations"))
        if not isinstance(value, list) or not value:
            raise DataError(f"{self.origin}: 'messages' must be a list with a message at least")
        return tuple(self._message(number, item) for number, item in enumerate(value, start=1))

    def _message(self, number: int, item: object) -> dict[str, str]:
        fields: dict[str, object] = item if isinstance(item, dict) else {}
        role, content = fields.get("role", fields.get("from")), fields.get("content", fields.get("value"))
        if not isinstance(role, str) or not isinstance(content, str):
            raise DataError(f"{self.origin}: message {number} must have a role and a content that are texts")
        return {"role": _ROLES.get(role.lower(), role.lower()), "content": content}
