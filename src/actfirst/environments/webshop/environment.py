"""A shopping episode: the simulator behind the environment protocol.

Observations carry the original's `text_rich` page unchanged. `admissible` lists `click[...]` for every clickable
element in the original's order; `templates` holds the search form while there is a search bar. Anything that is not
an action costs a turn. What follows it is a choice (`AfterInvalid`):
- `page`, as in the original: the same page again. A search is carried out on every page, although only the home page
  offers it; the paper's stricter rule of validity is the alignment's business.
- `message`, as in the code that the paper builds on (TCOD): what the page does not offer is not submitted,
  and a message in the place of the page says why.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from actfirst.environments.webshop.goals import Goal
from actfirst.environments.webshop.section import AfterInvalid
from actfirst.environments.webshop.session import Session, Shop, parse_action
from actfirst.errors import EnvironmentFailure
from actfirst.records import Observation, Task

SEARCH_FORM = "search[<your query>]"
FULL_SCORE = 99.999
"""A purchase with at least this score is a success (paper, "Evaluation Metrics")."""


class WebshopEnvironment:
    """Plays the goal that `find` returns for a task, with the goal's id. A purchase ends the episode."""

    def __init__(
        self, shop: Shop, find: Callable[[Task], tuple[int, Goal]], after_invalid: AfterInvalid = "page"
    ) -> None:
        self._shop = shop
        self._find = find
        self._after_invalid = after_invalid
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
        if self._after_invalid == "message" and (message := _refusal(action, self._session)):
            return replace(_observe(self._session, 0.0, False), text=message)
        reward, done = self._session.step(action)
        observation = _observe(self._session, reward, done)
        self._final = observation if done else None
        return observation

    def close(self) -> None:
        self._session = None
        self._final = None


def _refusal(action: str, session: Session) -> str:
    """Why an action is not submitted; empty for one that the page offers."""
    match parse_action(action):
        case ("search", _) if session.search_bar:
            return ""
        case ("search", _):
            return "Not carried out: this page has no search bar. Use click[back to search] first."
        case ("click", target) if target in session.clickables:
            return ""
        case ("click", _):
            return f"Not carried out: this page has no such button. It has: {', '.join(session.clickables)}."
    return "Not carried out: an action has the form search[words to search for] or click[button]."


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
