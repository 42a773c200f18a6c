"""Plays an environment of OpenEnv by text, on a server that somebody started."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

import httpx2
from openenv import GenericEnvClient

from actfirst.environments.background import wait_for
from actfirst.environments.numbered import NumberedTasks
from actfirst.environments.openenv.section import OpenEnvSection
from actfirst.environments.options import plain
from actfirst.errors import ConfigError, EnvironmentFailure
from actfirst.records import Observation, Task

_FIRST_SEED = {"train": 0, "test": 1_000_000}
_OVER = "The episode is over."


class OpenEnvWorld:
    """One server. `fingerprint` knows its schema, but not the version of what it plays: OpenEnv does not tell."""

    name = "openenv"

    def __init__(self, section: OpenEnvSection) -> None:
        self.turn_limit = section.turn_limit
        schema = _schema(section)
        self._section = section.model_copy(update={"action": _action_field(section, schema["action"])})
        shown = schema["observation"].get("properties", {})
        if section.observation and section.observation not in shown:
            raise ConfigError(
                f"environment.observation = {section.observation!r} is no field of the server's observations; "
                f"they have {', '.join(shown)}"
            )
        sizes = {"train": section.train_tasks, "test": section.eval_tasks}
        self._seeds = NumberedTasks("openenv", "openenv", sizes, _FIRST_SEED)
        told = json.dumps([schema["action"], schema["observation"], plain(section.reset)], sort_keys=True)
        self.fingerprint = hashlib.sha256(told.encode()).hexdigest()[:16]

    def splits(self) -> Sequence[str]:
        return tuple(_FIRST_SEED)

    def tasks(self, split: str) -> Sequence[Task]:
        return self._seeds.of(split)

    def open(self) -> OpenEnvEnvironment:
        return OpenEnvEnvironment(self._section, self._seeds)


class OpenEnvEnvironment:
    """One session of the server, one episode at a time."""

    def __init__(self, section: OpenEnvSection, seeds: NumberedTasks) -> None:
        self._section, self._seeds = section, seeds
        self._client: Any = None
        self._reward, self._done = 0.0, False

    def reset(self, task: Task) -> tuple[str, Observation]:
        seed = self._seeds.number(task)
        self._reward, self._done = 0.0, False

        async def begin() -> Any:
            if self._client is None:
                self._client = GenericEnvClient(base_url=self._section.url)
                await self._client.connect()
            return await self._client.reset(seed=seed, **plain(self._section.reset))

        return self._section.instruction, self._observe(self._wait(begin()))

    def step(self, action: str) -> Observation:
        if self._done or self._client is None:
            return Observation(_OVER, (), done=True)

        async def act() -> Any:
            return await self._client.step({self._section.action: action})

        return self._observe(self._wait(act()))

    def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None

            async def end() -> None:
                await client.close()

            self._wait(end())

    def _wait(self, work: Any) -> Any:
        try:
            return wait_for(work, self._section.deadline, f"the server at {self._section.url}")
        except (OSError, RuntimeError) as error:  # what OpenEnv's client raises
            raise EnvironmentFailure(f"the server at {self._section.url}: {error}") from error

    def _observe(self, result: Any) -> Observation:
        self._reward += float(result.reward or 0.0)
        self._done = bool(result.done)
        share = self._reward / self._section.success_reward if self._done else 0.0
        field = self._section.observation
        shown = result.observation.get(field) if field else json.dumps(result.observation, ensure_ascii=False)
        return Observation(
            str(shown) or _OVER,
            (),
            done=self._done,
            success=share >= 1.0,
            score=100.0 * min(1.0, max(0.0, share)),
        )


def _schema(section: OpenEnvSection) -> dict[str, Any]:
    address = f"{section.url.rstrip('/')}/schema"
    try:
        found = httpx2.get(address, timeout=section.deadline).raise_for_status().json()
        return {part: dict(found[part]) for part in ("action", "observation")}
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, KeyError, TypeError) as error:
        raise ConfigError(
            f"environment.url = {section.url!r}: no OpenEnv server answers there ({type(error).__name__}: {error}); "
            "start it, and check the address"
        ) from error


def _action_field(section: OpenEnvSection, schema: dict[str, Any]) -> str:
    """Where the student's text goes."""
    fields, required = schema.get("properties", {}), schema.get("required", [])
    if section.action:
        required = [section.action] if section.action in fields else []
    if len(required) != 1:
        raise ConfigError(
            f"environment.action = {section.action!r}: an action of {section.url} has the fields {', '.join(fields)}; "
            "name the one that holds the text"
        )
    return str(required[0])
