"""How environments are measured, and how two engines of one environment are compared."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.records import Observation, Task

if TYPE_CHECKING:
    from actfirst.environments.base import EnvironmentSection, World

Walk = Callable[[random.Random, str, Observation], str]
"""Chooses an action at random, given the instruction and what is seen."""


def any_admissible(rng: random.Random, instruction: str, seen: Observation) -> str:
    return rng.choice(seen.admissible)


@dataclass(frozen=True, slots=True)
class Contestant:
    """A world to measure: how a worker opens it, some of its tasks, how many environments one worker plays at the
    same time, the interpreter of workers, whether it is usually played in this process, and how to act in it."""

    name: str
    open_world: Callable[[], World]
    tasks: tuple[Task, ...]
    turn_limit: int
    per_worker: int = 1
    python: str = ""
    inline: bool = False
    walk: Walk = any_admissible


@dataclass(frozen=True, slots=True)
class Verification:
    """What is to be verified: the games of a folder or of a recipe, whose section this is, and how they are walked.

    `log` has a line per game, so that a stopped verification goes on where it was.
    """

    folder: Path | None = None
    recipe: str = ""
    section: EnvironmentSection | None = None
    split: str = ""
    games: int = 0
    steps: int = 40
    seed: int = 0
    workers: int = 1
    python: str = ""
    log: Path | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """Who is told how a verification is getting on: of what is worth knowing, of differences, and of games done."""

    note: Callable[[str], None]
    difference: Callable[[str], None]
    progress: Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a verification: whether the engines are equal, in one line and in detail."""

    equal: bool
    summary: str
    details: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Comparing:
    """`engines` opens both over the same games (of a folder, or made up), at most so many; the fast one comes first.
    An engine that is not installed is left out, and the second value says why."""

    engines: Callable[[Path | None, str, int], AbstractContextManager[tuple[Sequence[Contestant], str]]]
    verify: Callable[[Verification, Told], Verdict]
