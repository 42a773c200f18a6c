"""Reads other people's demonstrations: files of several shapes in, lists of actions out.

Files: JSON lines, a JSON list of records, or a JSON object from task to actions or record; plain or compressed by xz,
gzip or bzip2. Records: a list of actions, a list of steps that each hold an action, or a chat whose assistant turns
hold one each, as text or as OpenAI tool calls. Which task a record belongs to is said by a name (an id, or a path on somebody's machine), or only by
the task's instruction somewhere in its texts: see `sources.py`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from actfirst.errors import ReferenceStoreError
from actfirst.reading import Unreadable, parse_json, unpacked

_ACTIONS = ("actions", "action_list", "action_sequence", "walkthrough")
_STEPS = ("trajectory", "steps", "traj", "history")
_CHATS = ("messages", "conversations", "conversation", "dialogue")
_NAMES = ("task_id", "game_file", "gamefile", "game", "task", "file", "path")
_LOOSE_NAMES = ("id", "item_id", "name")  # numbers here are line numbers more often than tasks
_TEXTS = ("instruction", "goal", "task_description", "query", "task")
_TASK_TYPES, _VARIATIONS = ("task_name", "taskName", "task"), ("variation", "variation_idx", "variationIdx")
_ASSISTANTS = frozenset(("assistant", "gpt", "agent", "model"))
_OPENING = 3  # of the messages that are no answers, those in which an instruction may stand

_TAGGED = re.compile(r"<action>(.*?)</action>", re.DOTALL)
_LABELLED = re.compile(r"^[^\S\n]*+Action\s*+(?:\d++\s*+)?:[ \t]*\n?(.*)$", re.MULTILINE | re.IGNORECASE)
_CALLED = ("action", "command")  # arguments of a tool call that are an action by themselves
_FIRST_LINES = 3  # of which one has to be a record, or a file is not JSON lines: one of them may be damaged
_INVOKED = re.compile(r"^```\w*|`")


@dataclass(frozen=True, slots=True)
class Demonstration:
    """One record. `names` may identify the task; `texts` are passages among which its instruction may be; `where` is
    its place in the file."""

    actions: tuple[str, ...]
    names: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    where: str = field(default="", repr=False, compare=False)


def read_demonstrations(
    path: Path, dropped: Callable[[str, str], None] = lambda reason, where: None
) -> Iterator[Demonstration]:
    """All demonstrations of a file, in order; `dropped` is told of records that are passed over: why, and which."""
    known = False
    for where, name, record in _records(path):
        found = _demonstration(name, record)
        known = known or found is not None
        if found is None:
            dropped("no known shape", where)
        elif not found.actions:
            dropped("no actions", where)
        else:
            yield replace(found, where=where)
    if not known:
        raise ReferenceStoreError(
            f"{path} holds no demonstrations of a known shape: each record needs a list under one of "
            f"{', '.join(_ACTIONS + _STEPS + _CHATS)}"
        )


def _records(path: Path) -> Iterator[tuple[str, str, object]]:
    """Records, each with its place and with the name under which it stands in the file (empty for most shapes)."""
    number = 0
    try:
        text = _content(path)
        lines = [(number, line) for number, line in enumerate(text.splitlines(), start=1) if line.strip()]
        if len(lines) > 1 and any(_is_record(line) for _, line in lines[:_FIRST_LINES]):
            for number, line in lines:
                yield f"line {number}", "", parse_json(line)
        else:
            for place, (name, record) in enumerate(_whole(parse_json(text)), start=1):
                yield f"record {place}", name, record
    except Unreadable as error:
        where = f", line {number}" if number else ""
        raise ReferenceStoreError(
            f"{path}{where} is neither JSON nor JSON lines that can be read: {error}; correct or remove it"
        ) from error


def _content(path: Path) -> bytes:
    try:
        return unpacked(path)
    except Unreadable as error:
        raise ReferenceStoreError(f"cannot read {path}: {error}") from error


def _is_record(line: bytes) -> bool:
    """Whether a line is a JSON object by itself, as in JSON lines."""
    try:
        return isinstance(parse_json(line), dict)
    except Unreadable:
        return False


def _whole(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, list):
        yield from (("", item) for item in value)
    elif isinstance(value, dict) and _demonstration("", value) is not None:
        yield "", value
    elif isinstance(value, dict):
        yield from value.items()


def _demonstration(name: str, record: object) -> Demonstration | None:
    """None if the record has no known shape."""
    if isinstance(record, list):
        return Demonstration(_listed(record), (name,) if name else (), (name,) if name else ())
    if not isinstance(record, dict):
        return None
    actions, texts = _actions(record)
    if actions is None:
        return None
    texts = (name, *_strings(record, _TEXTS), *texts)
    return Demonstration(actions, tuple(filter(None, (name, *_names(record)))), tuple(filter(None, texts)))


def _actions(record: Mapping[str, object]) -> tuple[tuple[str, ...] | None, tuple[str, ...]]:
    """The actions of a record, and what else it says that may hold the instruction."""
    for key in (*_ACTIONS, *_STEPS):
        value = record.get(key)
        if isinstance(value, list) and all(isinstance(item, str | dict) for item in value):
            return _listed(value), ()
    for key in _CHATS:
        value = record.get(key)
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return _chat(value)
    return None, ()


def _listed(items: Sequence[object]) -> tuple[str, ...]:
    said = (item.get("action") if isinstance(item, dict) else item for item in items)
    return tuple(action.strip() for action in said if isinstance(action, str) and action.strip())


def _chat(messages: Sequence[Mapping[str, object]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    answers: list[str] = []
    texts: list[str] = []
    called: list[str] = []
    for message in messages:
        role = str(message.get("role", message.get("from", ""))).lower()
        content = message.get("content", message.get("value", ""))
        if isinstance(content, list):  # OpenAI's parts
            content = "\n".join(part["text"] for part in content if isinstance(part, dict) and _is_text(part))
        if isinstance(content, str):
            (answers if role in _ASSISTANTS else texts).append(content)
        called += filter(None, map(_called_action, _calls(message)))
    if called:
        return tuple(called), tuple(texts[:_OPENING])
    marked = tuple(action for answer in answers if (action := marked_action(answer)))
    # A chat whose answers carry no marks at all answers with bare actions.
    bare = tuple(answer.strip() for answer in answers if answer.strip() and "\n" not in answer.strip())
    return marked or bare, tuple(texts[:_OPENING])


def _is_text(part: Mapping[str, object]) -> bool:
    return isinstance(part.get("text"), str)


def _calls(message: Mapping[str, object]) -> Iterator[Mapping[str, object]]:
    """The functions that a message of OpenAI's shape calls, of the present form and of the one before."""
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        if isinstance(call, dict) and isinstance(call.get("function"), dict):
            yield call["function"]
    if isinstance(once := message.get("function_call"), dict):
        yield once


def _called_action(function: Mapping[str, object]) -> str:
    """The action of a call: its argument `action` or `command`; else `name[argument]`, or the name of a call that has
    no arguments. Empty for any other."""
    arguments = function.get("arguments") or "{}"
    try:
        given = parse_json(arguments) if isinstance(arguments, str) else arguments
    except Unreadable:
        return ""
    if not isinstance(given, dict):
        return ""
    texts = {key: value.strip() for key, value in given.items() if isinstance(value, str)}
    if said := next((texts[key] for key in _CALLED if texts.get(key)), ""):
        return said
    name = str(function.get("name") or "").strip()
    if not given or not name:
        return name.replace("_", " ")
    return f"{name}[{next(iter(texts.values()))}]" if len(given) == len(texts) == 1 else ""


def marked_action(answer: str) -> str:
    """The action of an answer: the last `<action>` field, else the last `Action:` line; empty if neither is there."""
    tagged = answer[: answer.rfind("</action>") + len("</action>")]  # every tag in it has an end
    for mark, text in ((_TAGGED, tagged), (_LABELLED, answer)):
        found = mark.findall(text)
        if found:
            return _INVOKED.sub("", str(found[-1])).strip()
    return ""


def _names(record: Mapping[str, object]) -> Iterator[str]:
    kinds, variations = (
        [str(record[key]) for key in keys if isinstance(record.get(key), str | int)]
        for keys in (_TASK_TYPES, _VARIATIONS)
    )
    if kinds and variations:
        yield f"{kinds[0]}/{variations[0]}"
    for key in _NAMES:
        if isinstance(record.get(key), str | int):
            yield str(record[key])
    yield from (name for name in _strings(record, _LOOSE_NAMES) if not name.isdigit())


def _strings(record: Mapping[str, object], keys: Sequence[str]) -> Iterator[str]:
    for key in keys:
        value = record.get(key)
        if isinstance(value, str):
            yield value
