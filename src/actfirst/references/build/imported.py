"""Demonstrations from a file as a candidate source: which of them belong to a task.

A record that names its task is matched by the tail of the name: other people's files carry the paths of their own
machines. A record that does not is matched by the task's instruction, up to spelling of spaces and case and up to
WebShop's price clause, whose amount the shop draws anew (paper, appendix: candidates "are matched to the corresponding
training-task instructions and replayed").
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from actfirst.environments.normalize import collapse, fold
from actfirst.records import Task
from actfirst.references.build.candidates import Candidate
from actfirst.references.build.demonstrations import Demonstration, read_demonstrations

_FILE_NAME = re.compile(r"\.(?:tw-pddl|pddl|json|z8|txt)$")
_PASSAGE = re.compile(r"\s*(?:\n|\[SEP\])\s*")
_LABEL = re.compile(r"^(?:(?:your |the )?(?:task|instruction|goal)(?: is)?(?: to)?\s*:\s*)+")
_PRICE = re.compile(r",? and price lower than [\d.]+ dollars")


class ImportedSource:
    """The demonstrations of one file, by task. `label` is what references made from them say of their source."""

    def __init__(self, path: Path, tasks: Iterable[Task], label: str = "") -> None:
        self._label = label or f"import:{path.name}"
        self._by_task: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        self._by_text: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        tails = _unique_tails(tasks)
        digest = hashlib.sha256()
        for demonstration in read_demonstrations(path):
            digest.update(repr(demonstration).encode())
            self._file(demonstration, tails)
        self.key = f"{self._label}@{digest.hexdigest()[:8]}"

    def candidates(self, task: Task, instruction: str) -> Iterator[Candidate]:
        for actions in (*self._by_task.get(task.id, ()), *self._by_text.get(_comparable(instruction), ())):
            yield Candidate(actions, self._label)

    def _file(self, demonstration: Demonstration, tails: dict[str, str]) -> None:
        named = next((found for name in demonstration.names if (found := _match(name, tails))), None)
        if named is not None:
            self._by_task[named].append(demonstration.actions)
            return
        passages = {
            _comparable(piece) for text in demonstration.texts for piece in _PASSAGE.split(text) if piece
        }
        for passage in passages - {""}:
            self._by_text[passage].append(demonstration.actions)


def _unique_tails(tasks: Iterable[Task]) -> dict[str, str]:
    """Every tail of a task id that belongs to one task alone, and that task."""
    tails: dict[str, str] = {}
    shared: set[str] = set()
    for task in tasks:
        for tail in _tails(task.id.split("/")):
            if tails.setdefault(tail, task.id) != task.id:
                shared.add(tail)
    return {tail: task_id for tail, task_id in tails.items() if tail not in shared}


def _match(name: str, tails: dict[str, str]) -> str | None:
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    if parts and _FILE_NAME.search(parts[-1]):
        parts.pop()
    return next((tails[tail] for tail in _tails(parts) if tail in tails), None)


def _tails(parts: Sequence[str]) -> Iterator[str]:
    """The longest first."""
    for start in range(len(parts)):
        yield "/".join(parts[start:])


def _comparable(text: str) -> str:
    """An instruction as it is compared: folded, without its label, its price clause and its final full stop."""
    return _PRICE.sub("", _LABEL.sub("", collapse(fold(text)))).rstrip(". ")
