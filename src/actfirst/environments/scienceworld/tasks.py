"""The task types of ScienceWorld 1.2.3, how many variations each has, and the paper's split of them.

Paper, appendix "Benchmarks": training uses the first half of the variations of 17 task types (2,294 tasks), evaluation
the last five variations of all 30 (150 tasks). The paper does not name the 17: they are those of TCOD, on which it
builds, and they give its number exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from actfirst.records import Task

VARIATIONS: dict[str, int] = {
    "boil": 30,
    "melt": 30,
    "freeze": 30,
    "change-the-state-of-matter-of": 30,
    "use-thermometer": 540,
    "measure-melting-point-known-substance": 436,
    "measure-melting-point-unknown-substance": 300,
    "power-component": 20,
    "power-component-renewable-vs-nonrenewable-energy": 20,
    "test-conductivity": 900,
    "test-conductivity-of-unknown-substances": 600,
    "find-living-thing": 300,
    "find-non-living-thing": 300,
    "find-plant": 300,
    "find-animal": 300,
    "grow-plant": 126,
    "grow-fruit": 126,
    "chemistry-mix": 32,
    "chemistry-mix-paint-secondary-color": 36,
    "chemistry-mix-paint-tertiary-color": 36,
    "lifespan-longest-lived": 125,
    "lifespan-shortest-lived": 125,
    "lifespan-longest-lived-then-shortest-lived": 125,
    "identify-life-stages-1": 14,
    "identify-life-stages-2": 10,
    "inclined-plane-determine-angle": 168,
    "inclined-plane-friction-named-surfaces": 1386,
    "inclined-plane-friction-unnamed-surfaces": 162,
    "mendelian-genetics-known-plant": 120,
    "mendelian-genetics-unknown-plant": 480,
}
"""Task types in the simulator's own numbering (1-1 to 10-2), with the number of variations."""

_TRAINING = """
boil melt change-the-state-of-matter-of use-thermometer measure-melting-point-known-substance power-component
test-conductivity find-living-thing find-plant grow-plant chemistry-mix chemistry-mix-paint-secondary-color
lifespan-shortest-lived identify-life-stages-2 inclined-plane-determine-angle
inclined-plane-friction-named-surfaces mendelian-genetics-known-plant
"""
TRAINING = tuple(_TRAINING.split())
"""The 17 task types of the training split."""

CHANCE = frozenset(
    (
        "grow-fruit",
        "mendelian-genetics-known-plant",
        "mendelian-genetics-unknown-plant",
        "power-component",
        "power-component-renewable-vs-nonrenewable-energy",
    )
)
"""Types that need chance to be pinned down (see `java.py`) before a reference replays: an unmodified simulator shows
other things when the same actions are repeated (heredity, bees), or ends one action later (power)."""

Gate = Literal["none", "valid list"]
"""Which actions are submitted to the simulator: all, or only those that it lists as valid."""

SPLITS = ("train", "eval")
PAPER_EVAL = 5
"""How many variations of each type the paper keeps for evaluation."""


def is_random(task: Task) -> bool:
    """Whether the simulator leaves the course or the end of such a task to chance. Chance is pinned down here;
    references of these tasks are replayed more often all the same, to prove it."""
    return task.kind in CHANCE


def split_variations(kind: str, split: str, last: int = PAPER_EVAL) -> range:
    count = VARIATIONS[kind]
    trained = count // 2 if kind in TRAINING else 0
    return range(trained) if split == "train" else range(max(trained, count - last), count)


def list_tasks(kinds: Sequence[str], split: str, last: int = PAPER_EVAL) -> tuple[Task, ...]:
    return tuple(
        Task(f"scienceworld/{split}/{kind}/{variation}", split, kind)
        for kind in kinds
        for variation in split_variations(kind, split, last)
    )
