"""Plays a taskset of verifiers: the environment speaks, the student's action is the reply."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from importlib.metadata import version
from itertools import islice
from typing import Any

from verifiers.v1.configs.agent import agent_config_fields
from verifiers.v1.utils.loaders import load_environment, resolve_env_config

from actfirst.environments.background import wait_for
from actfirst.environments.numbered import NumberedTasks
from actfirst.environments.options import plain
from actfirst.environments.verifiers.seat import HeldEpisode
from actfirst.environments.verifiers.section import VerifiersSection
from actfirst.errors import ConfigError
from actfirst.records import Observation, Task

_OVER = "The episode is over."


class VerifiersWorld:
    """One taskset; its first tasks are those of the train split, the ones after them those of the test split."""

    name = "verifiers"

    def __init__(self, section: VerifiersSection) -> None:
        self._section = section
        self.turn_limit = section.turn_limit
        environment = self._environment = _load(section)
        seats = list(agent_config_fields(environment.config))
        if len(seats) != 1:
            raise ConfigError(
                f"{section.id} is played by {len(seats)} agents ({', '.join(seats)}), and the student can be one "
                "alone; choose an environment with one seat (environment.pair)"
            )
        (self._seat,) = seats
        sizes = {"train": section.train_tasks, "test": section.eval_tasks}
        self._tasks = list(islice(environment.taskset, sum(sizes.values())))
        if len(self._tasks) < sum(sizes.values()):
            raise ConfigError(
                f"{section.id} has {len(self._tasks)} tasks, and environment.train_tasks and eval_tasks ask for "
                f"{sum(sizes.values())}; ask for fewer"
            )
        _refuse_what_needs_more(section.id, environment, self._tasks)
        first = {"train": 0, "test": section.train_tasks}
        self._numbers = NumberedTasks(f"verifiers/{section.id}", section.id, sizes, first)
        told = hashlib.sha256(version("verifiers").encode())
        for task in self._tasks:
            told.update(task.hash.encode())
        self.fingerprint = told.hexdigest()[:16]

    def splits(self) -> Sequence[str]:
        return tuple(self._numbers.sizes)

    def tasks(self, split: str) -> Sequence[Task]:
        return self._numbers.of(split)

    def open(self) -> VerifiersEnvironment:
        return VerifiersEnvironment(self._section, self._environment, self._seat, self._numbers, self._tasks)


class VerifiersEnvironment:
    """One episode at a time."""

    def __init__(
        self,
        section: VerifiersSection,
        environment: Any,
        seat: str,
        numbers: NumberedTasks,
        tasks: Sequence[Any],
    ) -> None:
        self._section, self._environment, self._seat = section, environment, seat
        self._numbers, self._tasks = numbers, tasks
        self._episode: HeldEpisode | None = None

    def reset(self, task: Task) -> tuple[str, Observation]:
        number = self._numbers.number(task)
        given = self._tasks[number]
        self.close()

        async def begin() -> tuple[HeldEpisode, str | None]:
            episode = HeldEpisode(self._environment, self._seat, given)
            try:
                return episode, await episode.begin()
            except BaseException:
                await episode.end()
                raise

        self._episode, told = wait_for(begin(), self._section.deadline, f"the start of {task.id}")
        data = given.data
        said = "\n".join(text for text in (data.system_prompt, data.prompt_text) if text)
        return said or data.description or self._section.instruction, self._observe(told)

    def step(self, action: str) -> Observation:
        if self._episode is None:
            return Observation(_OVER, (), done=True)
        return self._observe(
            wait_for(self._episode.reply(action), self._section.deadline, f"a turn of {self._section.id}")
        )

    def close(self) -> None:
        if self._episode is not None:
            episode, self._episode = self._episode, None
            wait_for(episode.end(), self._section.deadline, f"the end of {self._section.id}")

    def _observe(self, told: str | None) -> Observation:
        if told is not None:
            return Observation(told, ())
        assert self._episode is not None
        share = self._episode.reward / self._section.success_reward
        return Observation(_OVER, (), done=True, success=share >= 1.0, score=100.0 * min(1.0, max(0.0, share)))


def _load(section: VerifiersSection) -> Any:
    settings = {**plain(section.pair_options), "taskset": {**plain(section.options), "id": section.id}}
    if section.pair:
        settings["id"] = section.pair
    try:
        return load_environment(resolve_env_config(settings))
    except Exception as error:  # of a package that somebody else wrote
        raise ConfigError(
            f"environment.id = {section.id!r} with options {section.options} cannot be opened: "
            f"{type(error).__name__}: {error}"
        ) from error


def _refuse_what_needs_more(name: str, environment: Any, tasks: Sequence[Any]) -> None:
    """The student replies by text: there is no program behind it that would need a box or tools."""
    shared = environment.taskset.toolsets(environment.taskset.config)
    for task in tasks:
        if type(task).NEEDS_CONTAINER or task.data.image is not None:
            raise ConfigError(f"{name} plays its tasks in containers, and the student acts by text alone")
        if shared or type(task).toolsets(task.config):
            raise ConfigError(f"{name} offers tools to its agent, and the student acts by text alone")
