"""Draws tasks for measurements: as many as asked for, each task type in proportion, the same for the same seed."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Sequence

from actfirst.errors import ConfigError
from actfirst.records import Task


def draw_tasks(tasks: Sequence[Task], count: int, seed: int) -> list[Task]:
    """`count` tasks (0: all) in their own order; what is left over by rounding goes to the largest remainders."""
    if count == 0 or count == len(tasks):
        return list(tasks)
    if count > len(tasks):
        raise ConfigError(f"{count} tasks are asked for, but there are {len(tasks)}; ask for fewer")
    by_kind: dict[str, list[int]] = defaultdict(list)
    for place, task in enumerate(tasks):
        by_kind[task.kind].append(place)
    exact = {kind: count * len(places) / len(tasks) for kind, places in by_kind.items()}
    shares = {kind: int(value) for kind, value in exact.items()}
    by_remainder = sorted(exact, key=lambda kind: (shares[kind] - exact[kind], kind))
    for kind in by_remainder[: count - sum(shares.values())]:
        shares[kind] += 1
    draw = random.Random(seed)
    chosen = [place for kind in sorted(by_kind) for place in draw.sample(by_kind[kind], shares[kind])]
    return [tasks[place] for place in sorted(chosen)]
