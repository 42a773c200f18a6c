"""Plays an environment of Gymnasium by text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from actfirst.environments.gymnasium.section import GymnasiumSection
from actfirst.environments.normalize import normalize
from actfirst.environments.numbered import NumberedTasks
from actfirst.environments.options import plain
from actfirst.errors import ConfigError
from actfirst.records import Observation, Task

_FIRST_SEED = {"train": 0, "test": 1_000_000}


class GymnasiumWorld:
    """One id of Gymnasium; its tasks are seeds, other ones in each split."""

    name = "gymnasium"

    def __init__(self, section: GymnasiumSection) -> None:
        import gymnasium

        self._section = section
        self.turn_limit = section.turn_limit
        told = f"{gymnasium.__version__} {section.id} {sorted(section.options.items())} {section.actions}"
        self.fingerprint = hashlib.sha256(told.encode()).hexdigest()[:16]
        sizes = {"train": section.train_tasks, "test": section.eval_tasks}
        self._seeds = NumberedTasks(f"gymnasium/{section.id}", section.id, sizes, _FIRST_SEED)
        environment = _make(section)
        spaces = gymnasium.spaces
        discrete = isinstance(environment.action_space, spaces.Discrete)
        self._text = isinstance(environment.observation_space, spaces.Text)
        if discrete and len(section.actions) != environment.action_space.n:
            raise ConfigError(
                f"environment.actions names {len(section.actions)} actions, and {section.id} has "
                f"{environment.action_space.n}; name them all, in their order"
            )
        if not discrete and not isinstance(environment.action_space, spaces.Text):
            raise ConfigError(f"{section.id} takes {environment.action_space}, neither text nor named actions")
        if not self._text and environment.render_mode != "ansi":
            raise ConfigError(
                f"{section.id} shows no text: its observations are {environment.observation_space}, and it does not "
                "render itself as text (ansi)"
            )
        environment.close()

    def splits(self) -> Sequence[str]:
        return tuple(_FIRST_SEED)

    def tasks(self, split: str) -> Sequence[Task]:
        return self._seeds.of(split)

    def open(self) -> GymnasiumEnvironment:
        return GymnasiumEnvironment(self._section, self._seeds, text=self._text)


class GymnasiumEnvironment:
    """One episode at a time. What is no action of a discrete space costs a turn and changes nothing else."""

    def __init__(self, section: GymnasiumSection, seeds: NumberedTasks, *, text: bool) -> None:
        self._section = section
        self._seeds = seeds
        self._shows_text = text
        self._environment = _make(section)
        self._places = {normalize(name): place for place, name in enumerate(section.actions)}
        self._reward, self._done, self._seen = 0.0, False, ""

    def reset(self, task: Task) -> tuple[str, Observation]:
        shown, _ = self._environment.reset(seed=self._seeds.number(task))
        self._reward, self._done = 0.0, False
        self._seen = self._text(shown)
        return self._section.instruction, self._observe(self._seen)

    def step(self, action: str) -> Observation:
        chosen: Any = self._places.get(normalize(action)) if self._places else action
        if self._done or chosen is None or not self._environment.action_space.contains(chosen):
            return self._observe("Nothing happens.")
        shown, reward, ended, cut, _ = self._environment.step(chosen)
        self._reward += float(reward)
        self._done = bool(ended or cut)
        self._seen = self._text(shown)
        return self._observe(self._seen)

    def close(self) -> None:
        self._environment.close()

    def _text(self, shown: Any) -> str:
        text = shown if self._shows_text else self._environment.render()
        return str(text).replace("\x1b[41m", "[").replace("\x1b[0m", "]").strip()  # the marked place, as text

    def _observe(self, text: str) -> Observation:
        success = self._done and self._reward >= self._section.success_reward
        return Observation(
            text=text,
            admissible=self._section.actions,
            done=self._done,
            success=success,
            score=100.0 if success else 0.0,
        )


def _make(section: GymnasiumSection) -> Any:
    import gymnasium

    options = plain(section.options)
    try:
        made = gymnasium.make(section.id, **options)
        if "ansi" not in made.metadata.get("render_modes", ()):
            return made
        made.close()
        return gymnasium.make(section.id, render_mode="ansi", **options)
    except (gymnasium.error.Error, ImportError, TypeError) as error:
        raise ConfigError(
            f"environment.id = {section.id!r} with options {section.options} cannot be made: {error}; "
            "gymnasium.pprint_registry() lists what there is"
        ) from error
