"""WebShop as a world: goals as tasks, split as in the paper.

Goal ids 0-4095 are for training and 4096-4195 for evaluation (paper, appendix "Benchmarks"). The paper's catalogue is
the full one, whose goals people wrote; the set of 1,000 products has 13 of those, so there the goals made from
options take their place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from hashlib import sha256
from pathlib import Path
from typing import Literal

from actfirst.environments.webshop.catalogue import (
    READ_INTO_MEMORY,
    Catalogue,
    GoalKind,
    find_files,
    read_catalogue,
    sample_catalogue,
)
from actfirst.environments.webshop.environment import WebshopEnvironment
from actfirst.environments.webshop.goals import Goal
from actfirst.environments.webshop.nouns import (
    SPACY_INSTALL,
    SPACY_MODEL,
    Nouns,
    has_spacy,
    simple_nouns,
    spacy_nouns,
)
from actfirst.environments.webshop.section import AfterInvalid, NounChoice
from actfirst.environments.webshop.session import Shop
from actfirst.errors import EnvironmentFailure, TaskError
from actfirst.records import Task

TURN_LIMIT = 15
SPLITS = {"train": range(4096), "eval": range(4096, 4196)}

REVISION = 1
"""Counts changes of this implementation after which stored references would not replay."""

GoalChoice = Literal["auto", "human", "synthetic"]


class WebshopWorld:
    """The goals of a catalogue. `goals` chooses their kind; `auto` takes those of people if there are enough."""

    name = "webshop"

    def __init__(
        self,
        catalogue: Catalogue,
        goals: GoalChoice = "auto",
        nouns: Nouns = simple_nouns,
        tagger: str = "simple",
        turn_limit: int = TURN_LIMIT,
        splits: Mapping[str, range] = SPLITS,
        after_invalid: AfterInvalid = "page",
    ) -> None:
        self.turn_limit = turn_limit
        self._after_invalid: AfterInvalid = after_invalid
        self.shop = Shop(catalogue.shelf, catalogue.price, catalogue.search, nouns)
        self._splits = dict(splits)
        self.kind, self.goals = _choose_goals(catalogue, goals, max(ids.stop for ids in splits.values()))
        meant = _name_goals(self.kind, self.goals)
        self.fingerprint = f"webshop-{REVISION}-{catalogue.fingerprint}-{meant}-{tagger}"

    def splits(self) -> Sequence[str]:
        return tuple(self._splits)

    def tasks(self, split: str) -> Sequence[Task]:
        if split not in self._splits:
            raise TaskError(f"webshop has no split {split!r}; it has {', '.join(self._splits)}")
        return tuple(Task(f"webshop/{split}/{number}", split, self.kind) for number in self._splits[split])

    def open(self) -> WebshopEnvironment:
        return WebshopEnvironment(self.shop, self.find, self._after_invalid)

    def find(self, task: Task) -> tuple[int, Goal]:
        name, _, number = task.id.rpartition("/")
        split = name.removeprefix("webshop/")
        if split in self._splits and number.isdecimal() and int(number) in self._splits[split]:
            return int(number), self.goals[int(number)]
        raise TaskError(f"webshop has no task {task.id!r}")


def open_webshop(
    folder: str = "",
    index: str = "",
    products: int = 0,
    goals: GoalChoice = "auto",
    nouns: NounChoice = "spacy",
    turn_limit: int = TURN_LIMIT,
    splits: Mapping[str, range] = SPLITS,
    after_invalid: AfterInvalid = "page",
) -> WebshopWorld:
    """The world of a catalogue folder, or of the catalogue in the package where no folder is named."""
    tagger, name = choose_nouns(nouns)
    catalogue = open_folder(folder, index, products)
    return WebshopWorld(catalogue, goals, tagger, name, turn_limit, splits, after_invalid)


def fits_in_memory(folder: str) -> bool:
    """Whether the catalogue of a folder is read into memory, rather than indexed on disk."""
    return not folder or find_files(Path(folder).expanduser()).items.stat().st_size <= READ_INTO_MEMORY


def open_folder(folder: str, index: str = "", products: int = 0) -> Catalogue:
    """The catalogue of a folder; `products` takes the first items only, `index` is where a large one is indexed."""
    if not folder:
        return sample_catalogue()
    home = Path(folder).expanduser()
    files = find_files(home)
    limit = products or None
    if fits_in_memory(folder):
        return read_catalogue(files, limit)
    from actfirst.environments.webshop.disk import indexed_catalogue

    return indexed_catalogue(files, index_place(folder, index, products), limit)


def index_place(folder: str, index: str = "", products: int = 0) -> Path:
    """Where the catalogue of a folder is indexed if it does not fit in memory."""
    suffix = f"-{products}" if products else ""
    return Path(index or f"{folder}/actfirst-index{suffix}").expanduser()


def choose_nouns(choice: NounChoice) -> tuple[Nouns, str]:
    """The noun tagger of the reward, and its name. There is no fallback: another tagger is another reward."""
    if choice == "simple":
        return simple_nouns, "simple"
    if not has_spacy():
        raise EnvironmentFailure(
            f"environment.nouns = 'spacy', the noun tagger of WebShop's reward, needs spaCy and {SPACY_MODEL}: "
            f"{SPACY_INSTALL}; or set environment.nouns = 'simple', whose rewards are not quite the original's "
            "(docs/webshop.md)"
        )
    return spacy_nouns(), SPACY_MODEL


def _choose_goals(catalogue: Catalogue, choice: GoalChoice, needed: int) -> tuple[GoalKind, Sequence[Goal]]:
    kinds: tuple[GoalKind, ...] = ("human", "synthetic") if choice == "auto" else (choice,)
    counts: list[str] = []
    for kind in kinds:
        goals = catalogue.goals(kind)
        if len(goals) >= needed:
            return kind, goals
        counts.append(f"{len(goals):,} {kind}")
    raise EnvironmentFailure(
        f"the catalogue has {' and '.join(counts)} goals, but the splits need {needed:,}; set environment.goals to "
        "another kind, use more products, or choose other ids with environment.train and environment.eval"
    )


def _name_goals(kind: GoalKind, goals: Sequence[Goal]) -> str:
    """Made goals follow from the products; those of people do not, so which goal has which id is told by a digest."""
    if kind == "synthetic":
        return kind
    digest = sha256(json.dumps([astuple(goal) for goal in goals]).encode())
    return f"{kind}-{digest.hexdigest()[:16]}"
