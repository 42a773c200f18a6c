"""Builds a reference store from what a world's games themselves say; resumable, one task at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actfirst.records import Task
from actfirst.references.sources import GameReferences, GameWorld, Source
from actfirst.references.store import ReferenceWriter


@dataclass(frozen=True, slots=True)
class BuildReport:
    """What a store covers: tasks whose replay wins."""

    tasks: int
    covered: int
    mean_actions: float
    longest: int


def build_store(
    world: GameWorld,
    source: Source,
    tasks: Sequence[Task],
    path: Path,
    on_task: Callable[[int, int], None] = lambda done, of: None,
) -> BuildReport:
    """Replay every task's actions into the store at `path`; tasks that are there already are kept."""
    references = GameReferences(world, source)
    lengths: list[int] = []
    writer = ReferenceWriter(path, world)
    for number, task in enumerate(tasks, start=1):
        reference = references.get(task)
        if reference is not None:
            lengths.append(len(reference.steps))
            if task.id not in writer.done:
                writer.add(reference)
        on_task(number, len(tasks))
    mean = sum(lengths) / len(lengths) if lengths else 0.0
    return BuildReport(len(tasks), len(lengths), mean, max(lengths, default=0))
