"""Perfect replay of a whole store: does every reference, followed with its own actions, pass every check?

The share that passes is one of tasks, not of references: a task without a reference counts as one that failed. So does
a reference that is marked unreliable, except in worlds that leave things to chance, where it does not count.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from actfirst.environments.registry import Kind
from actfirst.errors import ReferenceStoreError
from actfirst.records import Task
from actfirst.references.build.build import OpenWorld
from actfirst.references.build.replay import follow
from actfirst.references.build.trials import Workbench
from actfirst.references.build.workers import GivenUp, run_jobs
from actfirst.references.store import Configuration, ReferenceStore


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of following the reference of one task. `reason` is empty where every check passed."""

    task_id: str
    kind: str
    reliable: bool
    reason: str
    turn: int

    @property
    def aligned(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class Share:
    """Tasks of one kind: how many count, how many of these passed every check, and why others did not. `without` have
    no reference, `unreliable` have one that is marked so."""

    tasks: int = 0
    counted: int = 0
    aligned: int = 0
    without: int = 0
    unreliable: int = 0
    unreliable_aligned: int = 0
    reasons: dict[str, int] = field(default_factory=dict)

    @property
    def percent(self) -> float:
        """The share of the tasks that count; 0 if none does, because then nothing is shown."""
        return 100.0 * self.aligned / self.counted if self.counted else 0.0


@dataclass(frozen=True, slots=True)
class Verification:
    """All tasks asked about: together and by kind. `failures` are the first few, for a person to look at."""

    overall: Share
    by_kind: dict[str, Share]
    failures: tuple[Verified, ...]


class _Follower:
    def __init__(self, kind: Kind, open_world: OpenWorld, path: Path) -> None:
        self._bench = Workbench(kind, open_world())
        self._store = ReferenceStore.read(path)
        self.close = self._bench.close

    def work(self, task: Task) -> Verified:
        reference = self._store.get(task)
        assert reference is not None, "only tasks with a reference are asked about"
        try:
            followed = follow(self._bench.environment, task, reference, self._bench.kind.rules)
        except Exception as error:  # whatever a simulator raises is a failure of this task alone
            self.close()
            return Verified(task.id, task.kind, reference.reliable, f"failed: {error}", 0)
        return Verified(task.id, task.kind, reference.reliable, followed.reason.value, followed.turn)


def verify_store(
    kind: Kind,
    open_world: OpenWorld,
    path: Path,
    tasks: Sequence[Task],
    configuration: Configuration | None = None,
    workers: int = 0,
    seconds: float = 600.0,
    on_task: Callable[[int, int], None] = lambda done, of: None,
) -> Verification:
    """Follow the reference of every task that has one."""
    store = ReferenceStore.open(path, open_world(), configuration)
    covered = [task for task in tasks if store.covers(task)]
    if not covered:
        raise ReferenceStoreError(f"{path} has no reference of the {len(tasks)} tasks asked about")
    found: list[Verified] = []
    for task, outcome in run_jobs(covered, partial(_Follower, kind, open_world, path), workers, seconds):
        if isinstance(outcome, GivenUp):
            reference = store.get(task)
            reliable = reference is not None and reference.reliable
            outcome = Verified(task.id, task.kind, reliable, outcome.reason, 0)
        found.append(outcome)
        on_task(len(found), len(covered))
    return summarise(tasks, found, chance=kind.sources.chance is not None)


def summarise(tasks: Sequence[Task], found: Sequence[Verified], chance: bool, shown: int = 20) -> Verification:
    """Of `tasks`, `found` were followed. `chance`: the world leaves things to chance."""
    asked = Counter(task.kind for task in tasks)
    kinds: dict[str, list[Verified]] = defaultdict(list)
    for one in found:
        kinds[one.kind].append(one)
    failures = [one for one in found if one.reliable and not one.aligned]
    by_kind = {kind: _share(asked[kind], kinds[kind], chance) for kind in sorted(asked)}
    return Verification(_share(len(tasks), found, chance), by_kind, tuple(failures[:shown]))


def _share(tasks: int, found: Sequence[Verified], chance: bool) -> Share:
    reliable = [one for one in found if one.reliable]
    others = [one for one in found if not one.reliable]
    return Share(
        tasks=tasks,
        counted=tasks - len(others) if chance else tasks,
        aligned=sum(one.aligned for one in reliable),
        without=tasks - len(found),
        unreliable=len(others),
        unreliable_aligned=sum(one.aligned for one in others),
        reasons=dict(Counter(one.reason for one in reliable if not one.aligned).most_common()),
    )
