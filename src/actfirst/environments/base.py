"""What an environment is: the protocols that it is played through, and the one record that registers it.

A `World` lists tasks and opens environments; an `Environment` plays one episode at a time. Both are plain
synchronous objects: worker pools and deadlines are built around them, not inside. A rollout sees them through an
`EnvironmentPool`, which hands out one `AsyncEnvironment` per episode. An `EnvironmentKind` says everything else about a
benchmark: its section of a recipe, its rules, its prompts, how its tasks are solved. An environment knows nothing of
methods or engines.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from importlib.resources.abc import Traversable
from typing import Generic, Literal, Protocol, Self, TypeVar

from pydantic import Field, model_validator

from actfirst.config.base import Section
from actfirst.environments.comparing import Comparing, Walk, any_admissible
from actfirst.environments.findings import Check
from actfirst.environments.lexicon import NO_LEXICON, Lexicon
from actfirst.environments.rules import TransitionRules
from actfirst.environments.solving import ReferenceSources
from actfirst.records import Observation, Task


class Environment(Protocol):
    """Plays one episode at a time. Anything that is not an action costs a turn and changes nothing else."""

    def reset(self, task: Task) -> tuple[str, Observation]:
        """Begin the task; returns its instruction and the first observation."""
        ...

    def step(self, action: str) -> Observation: ...

    def close(self) -> None:
        """Release everything. Calling it twice is allowed."""
        ...


class World(Protocol):
    """One benchmark as configured: its tasks, and environments that play them.

    `fingerprint` changes whenever a stored reference would no longer replay.
    """

    name: str
    turn_limit: int
    fingerprint: str

    def splits(self) -> Sequence[str]: ...

    def tasks(self, split: str) -> Sequence[Task]:
        """All tasks of a split in a stable order; raises TaskError for an unknown split."""
        ...

    def open(self) -> Environment: ...


class AsyncEnvironment(Protocol):
    """What a rollout plays: an environment whose calls may take time without blocking others."""

    async def reset(self, task: Task) -> tuple[str, Observation]: ...

    async def step(self, action: str) -> Observation: ...


class EnvironmentPool(Protocol):
    """Hands out environments, one per episode. What goes wrong in one is an EnvironmentFailure of its episode."""

    def lease(self) -> AbstractAsyncContextManager[AsyncEnvironment]: ...

    async def close(self) -> None:
        """Release everything; leaves no process behind."""
        ...


PromptOrder = Literal["paper", "growing"]


class EnvironmentSection(Section):
    """The `environment` table of a recipe. Each kind of environment has a subclass of its own."""

    name: str = Field(description="which environment")
    prompts: PromptOrder = Field(
        "paper",
        description="the paper's prompts; growing: the same in an order in which each turn extends the last",
    )
    templates: str = Field(
        "",
        description="a folder of prompt templates in place of the environment's own; a relative path starts from the "
        "recipe's file",
    )


class OptionsSection(EnvironmentSection):
    """For environments that need no section of their own: whatever stands in `options` is theirs to understand."""

    options: dict[str, object] = Field({}, description="what the environment itself understands")

    @model_validator(mode="after")
    def _options_are_plain(self) -> Self:
        for key, value in self.options.items():
            if not isinstance(value, str | bool | int | float | tuple | dict):
                raise ValueError(f"options.{key} = {value} is neither text, number, truth, list nor table")
        return self


@dataclass(frozen=True, slots=True)
class PromptForms:
    """How prompts are worded: a folder with `<mode>.txt` and `<mode>_no_history.txt` of each mode, and two functions.

    An environment whose prompts can also grow has a folder `growing` in it, with `turn.txt` (all that the modes share)
    and `<mode>.txt` (what comes after it).
    `action_values` gives the placeholder values that describe what can be done now: texts, or lists of items. How a
    list looks is said by `forms.toml` in the folder, by default on one line, each item in quotes. `shown_reference` is
    how a reference next observation appears in the inverse-dynamics prompt.
    """

    folder: Traversable
    action_values: Callable[[Observation], Mapping[str, str | Sequence[str]]]
    shown_reference: Callable[[str], str] = str


@dataclass(frozen=True, slots=True)
class Hosting:
    """What suits a world's environments: worker processes or this one, and how many one worker plays.

    `threads` says that environments of one process may be called at the same time; without, one worker plays one.
    """

    processes: bool
    per_worker: int
    threads: bool = True


INLINE = Hosting(processes=False, per_worker=64)


def _alone(section: EnvironmentSection) -> Hosting:
    return Hosting(processes=True, per_worker=1)


def inline(section: EnvironmentSection) -> Hosting:
    """In this process: for environments that are quick and do not crash."""
    return INLINE


def _needs_nothing(section: EnvironmentSection) -> None:
    """Everything that it needs is installed with it."""


S = TypeVar("S", bound=EnvironmentSection)


@dataclass(frozen=True)
class EnvironmentKind(Generic[S]):
    """The registration of an environment: everything that others need to know about it.

    A kind travels to worker processes, so its functions are functions of a module, not lambdas. They import what is
    heavy when they are called: all kinds are loaded to read a recipe.

    - `section`: its table in a recipe; `open` makes a world of it.
    - `rules` and `prompts`: when a guided turn came out as in the reference, and how a turn is put to a model.
    - `executes_unlisted`: whether actions that `Observation.admissible` does not name may be carried out, too.
    - `hosting`: where its environments are best played; `require` raises EnvironmentFailure where they cannot be.
    - `sources`: how its tasks are solved, for whoever makes references.
    - `checks`: what `actfirst doctor` looks at.
    - `walk`: how `actfirst bench envs` acts in it; `sample` is a recipe that this command can measure without data.
    - `lexicon`: its words, for whoever makes small models for it (`actfirst mini build`).
    - `comparing`: for an environment that two engines can play.
    """

    name: str
    section: type[S]
    open: Callable[[S], World]
    rules: TransitionRules
    prompts: PromptForms
    executes_unlisted: bool = False
    hosting: Callable[[S], Hosting] = _alone
    require: Callable[[S], None] = _needs_nothing
    sources: ReferenceSources = field(default_factory=ReferenceSources)
    checks: Callable[[], Sequence[Check]] = tuple
    walk: Walk = any_admissible
    sample: str = ""
    lexicon: Lexicon = NO_LEXICON
    comparing: Comparing | None = None
