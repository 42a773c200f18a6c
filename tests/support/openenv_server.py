"""A server of OpenEnv, written with its public classes: say a word backwards, letter by letter or as a whole.

`python -m tests.support.openenv_server PORT` serves it.
"""

from __future__ import annotations

import random
import sys
from typing import Any

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

WORDS = ("lamp", "shelf", "apple", "window")


class Said(Action):
    message: str


class Heard(Observation):
    text: str


class Backwards(Environment[Said, Heard, State]):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._word, self._steps = "", 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **more: Any) -> Heard:
        self._word, self._steps = random.Random(seed).choice(WORDS), 0
        return Heard(text=f"Say {self._word} backwards.")

    def step(self, action: Said, timeout_s: float | None = None, **more: Any) -> Heard:
        self._steps += 1
        if action.message == self._word[::-1]:
            return Heard(text="Right.", done=True, reward=1.0)
        return Heard(text=f"{action.message} is not {self._word} backwards.", reward=0.0)

    @property
    def state(self) -> State:
        return State(step_count=self._steps)


if __name__ == "__main__":
    app = create_fastapi_app(Backwards, Said, Heard, max_concurrent_envs=64)
    uvicorn.run(app, port=int(sys.argv[1]), log_level="warning")
