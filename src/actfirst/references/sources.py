"""What may become a reference: lists of actions for one task, and where they come from.

Paper, appendix "Teacher Training and Reference Construction": candidates are public demonstrations, model-generated
rollouts and oracle solutions. A source only proposes. Whether a list works is found out by replaying it. An environment
names the ways in which it solves tasks itself (`EnvironmentKind.sources`); files come from elsewhere.
"""

from __future__ import annotations

import hashlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

from actfirst.environments.base import World
from actfirst.environments.normalize import collapse, fold
from actfirst.environments.registry import Kind
from actfirst.environments.solving import Way
from actfirst.errors import ConfigError
from actfirst.records import Task
from actfirst.references.build.demonstrations import Demonstration, read_demonstrations

BEST = "best"
"""Names the sources of its own that a world considers best: all, unless it says otherwise."""

_FILE_NAME = re.compile(r"\.(?:tw-pddl|pddl|json|z8|txt)$")
_PASSAGE = re.compile(r"\n|\[SEP\]")
_SHOWN = 5  # places of dropped records in a line for a person
_MOST_PARTS = 16  # of a path that are compared, from its end
_LABEL = re.compile(r"^(?:(?:your |the )?(?:task|instruction|goal)(?: is)?(?: to)?\s*:\s*)+")


@dataclass(frozen=True, slots=True)
class Candidate:
    """Actions that somebody took, or would take, in a task. They may be wrong, too long, or worded differently."""

    actions: tuple[str, ...]
    source: str


class CandidateSource(Protocol):
    """Proposes candidates. `key` identifies what it would propose: with an equal key it is not asked twice."""

    @property
    def key(self) -> str: ...

    def candidates(self, task: Task, instruction: str) -> Iterator[Candidate]:
        """Every proposal for the task, whose instruction is `instruction`; raises ActfirstError if it cannot."""
        ...


@dataclass(frozen=True)
class OwnSource:
    """A way in which a world solves its tasks itself."""

    key: str
    way: Way
    world: World

    def candidates(self, task: Task, instruction: str) -> Iterator[Candidate]:
        for actions in self.way(self.world, task):
            yield Candidate(tuple(actions), self.key)


@dataclass
class Imported:
    """What became of the records of a file: those that name a task, those that only tell its instruction (it is
    compared when the task is tried), and the places of what was dropped, by reason."""

    path: Path
    named: int = 0
    by_text: int = 0
    dropped: dict[str, list[str]] = field(default_factory=dict)

    def drop(self, reason: str, where: str) -> None:
        self.dropped.setdefault(reason, []).append(where)

    def text(self) -> str:
        """One line for a person."""
        parts = [
            f"{self.path}: {self.named} demonstrations of named tasks, {self.by_text} by their instruction"
        ]
        for reason, places in self.dropped.items():
            shown = ", ".join(places[:_SHOWN]) + (", ..." if len(places) > _SHOWN else "")
            parts.append(f"{len(places)} dropped, {reason}: {shown}")
        return "; ".join(parts)

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "path": str(self.path)}


class ImportedSource:
    """The demonstrations of one file, by task. `label` is what references made from them say of their source.

    A record that names its task is matched by the tail of the name: other people's files carry the paths of their own
    machines. A record that does not is matched by the task's instruction (paper, appendix: candidates "are matched to
    the corresponding training-task instructions and replayed"), up to spaces, case, a label before it, its full stop,
    and whatever the environment's `comparable` takes away.
    """

    def __init__(
        self, path: Path, tasks: Iterable[Task], label: str = "", comparable: Callable[[str], str] = str
    ) -> None:
        self._comparable = comparable
        self._label = label or f"import:{path.name}"
        self._by_task: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        self._by_text: dict[str, list[tuple[str, ...]]] = defaultdict(list)
        self.used = Imported(path)
        tails = unique_tails(tasks)
        digest = hashlib.sha256()
        for demonstration in read_demonstrations(path, self.used.drop):
            digest.update(repr(demonstration).encode())
            self._file(demonstration, tails)
        self.key = f"{self._label}@{digest.hexdigest()[:8]}"

    def candidates(self, task: Task, instruction: str) -> Iterator[Candidate]:
        for actions in (*self._by_task.get(task.id, ()), *self._by_text.get(self._plain(instruction), ())):
            yield Candidate(actions, self._label)

    def _file(self, demonstration: Demonstration, tails: dict[str, str]) -> None:
        named = next((found for name in demonstration.names if (found := match_task(name, tails))), None)
        if named is not None:
            self._by_task[named].append(demonstration.actions)
            self.used.named += 1
            return
        passages = {
            self._plain(piece) for text in demonstration.texts for piece in _PASSAGE.split(text) if piece
        }
        for passage in passages - {""}:
            self._by_text[passage].append(demonstration.actions)
        if passages - {""}:
            self.used.by_text += 1
        else:
            names = ", ".join(demonstration.names)
            self.used.drop(
                "no task of this world is named" if names else "does not say its task",
                f"{demonstration.where} ({names})" if names else demonstration.where,
            )

    def _plain(self, text: str) -> str:
        return self._comparable(_LABEL.sub("", collapse(fold(text)))).rstrip(". ")


@dataclass(frozen=True, slots=True)
class Import:
    """A file of demonstrations, and what references made from it say of their source (empty: the file's name)."""

    path: Path
    label: str = ""


def open_sources(
    kind: Kind, world: World, names: Sequence[str], imports: Sequence[Import] = ()
) -> list[CandidateSource]:
    """The named sources (BEST: those that the world asks for it), then files of demonstrations with their labels."""
    ways = kind.sources.ways
    unknown = [name for name in names if name != BEST and name not in ways]
    if unknown:
        has = (
            f"it has {', '.join(ways)}" if ways else "it has none: import demonstrations, or let a teacher play"
        )
        raise ConfigError(f"{world.name} has no source of references called {unknown[0]!r}; {has}")
    best = kind.sources.best or tuple(ways)
    chosen = dict.fromkeys(name for given in names for name in (best if given == BEST else [given]))
    every_task = [task for split in world.splits() for task in world.tasks(split)] if imports else []
    files = [ImportedSource(one.path, every_task, one.label, kind.sources.instruction) for one in imports]
    return [*(OwnSource(name, ways[name], world) for name in chosen), *files]


def unique_tails(tasks: Iterable[Task]) -> dict[str, str]:
    """Every tail of a task id that belongs to one task alone, and that task."""
    tails: dict[str, str] = {}
    shared: set[str] = set()
    for task in tasks:
        for tail in _tails(task.id.split("/")):
            if tails.setdefault(tail, task.id) != task.id:
                shared.add(tail)
    return {tail: task_id for tail, task_id in tails.items() if tail not in shared}


def match_task(name: str, tails: dict[str, str]) -> str | None:
    """The task that somebody else's name of it means: its longest tail that is one of `unique_tails`."""
    parts = [part for part in name.replace("\\", "/").split("/") if part]
    if parts and _FILE_NAME.search(parts[-1]):
        parts.pop()
    return next((tails[tail] for tail in _tails(parts) if tail in tails), None)


def _tails(parts: Sequence[str]) -> Iterator[str]:
    """The longest first. Of somebody's endless path only the end counts."""
    for start in range(max(0, len(parts) - _MOST_PARTS), len(parts)):
        yield "/".join(parts[start:])
