"""A shopping episode: the simulator behind the environment protocol.

Observations carry the original's `text_rich` page unchanged. `admissible` lists `click[...]` for every clickable
element in the original's order; `templates` holds the search form while there is a search bar. Whatever the shop
ignores costs a turn and shows the same page again. As in the original, a search is carried out on every page,
although only the home page offers it; the paper's stricter rule of validity is the alignment's business.
"""

from __future__ import annotations

from collections.abc import Callable

from actfirst.environments.webshop.goals import Goal
from actfirst.environments.webshop.session import Session, Shop
from actfirst.errors import EnvironmentFailure
from actfirst.records import Observation, Task

SEARCH_FORM = "search[<your query>]"
FULL_SCORE = 99.999
"""A purchase with at least this score is a success (paper, "Evaluation Metrics")."""


class WebshopEnvironment:
    """Plays the goal that `find` returns for a task, with the goal's id. A purchase ends the episode."""

    def __init__(self, shop: Shop, find: Callable[[Task], tuple[int, Goal]]) -> None:
        self._shop = shop
        self._find = find
        self._session: Session | None = None
        self._final: Observation | None = None

    def reset(self, task: Task) -> tuple[str, Observation]:
        number, goal = self._find(task)
        self._session = Session(self._shop, goal, str(number))
        self._final = None
        return goal.instruction, _observe(self._session, 0.0, False)

    def step(self, action: str) -> Observation:
        if self._session is None:
            raise EnvironmentFailure("step was called before reset, or after close")
        if self._final is not None:
            return self._final
        reward, done = self._session.step(action)
        observation = _observe(self._session, reward, done)
        self._final = observation if done else None
        return observation

    def close(self) -> None:
        self._session = None
        self._final = None


def _observe(session: Session, reward: float, done: bool) -> Observation:
    score = 100.0 * reward
    return Observation(
        text=session.observation,
        admissible=tuple(f"click[{target}]" for target in session.clickables),
        templates=(SEARCH_FORM,) if session.search_bar else (),
        done=done,
        success=done and score >= FULL_SCORE,
        score=score,
        state=session.state,
    )
