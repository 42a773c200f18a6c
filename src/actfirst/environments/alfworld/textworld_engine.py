"""ALFWorld games played by the real engine: alfworld 0.4.2 on TextWorld 1.7.0, an optional extra.

Text, admissible commands and outcome are those of the native engine, and so is the digest of the state. TextWorld's
grammar parser is global: no two environments of one process may be called at the same time.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from actfirst.environments.alfworld.problem import ARITY
from actfirst.environments.alfworld.state import digest_of
from actfirst.environments.findings import installed_version
from actfirst.errors import EnvironmentFailure
from actfirst.records import Observation, Task

INSTALL = "pip install 'actfirst[textworld]'"
PACKAGES = ("alfworld", "textworld", "fast_downward")
VERSIONS = {"alfworld": "0.4.2", "textworld": "1.7.0"}
"""Functions that these keep to themselves are replaced below, and the native engine is compared with them."""

_OTHERWISE = (
    f'{INSTALL}; or name an interpreter that has it (pool.python), or play with environment.engine = "native"'
)
_TASK = "Your task is to: "


def require_textworld() -> None:
    """Raise EnvironmentFailure where the extra is not installed, or is another version."""
    missing = [name for name in PACKAGES if find_spec(name) is None]
    if missing:
        raise EnvironmentFailure(
            f'environment.engine = "textworld" needs {", ".join(missing)}, not installed here: {_OTHERWISE}'
        )
    other = [
        f"{name} {found or '(of no known version)'} instead of {VERSIONS[name]}"
        for name, found in installed_versions().items()
        if found != VERSIONS[name]
    ]
    if other:
        raise EnvironmentFailure(
            f'environment.engine = "textworld" finds {", ".join(other)}, whose inside it does not know: {_OTHERWISE}'
        )


def installed_versions() -> dict[str, str]:
    """Of alfworld and TextWorld in this interpreter; empty where one is not installed."""
    return {name: installed_version(name) for name in VERSIONS}


class TextworldEnvironment:
    """Plays the game file that `path` returns for a task. A game is loaded once while its task stays the same."""

    def __init__(self, path: Callable[[Task], Path]) -> None:
        self._path = path
        self._game: Any = _open_engine()
        self._loaded: Path | None = None
        self._playing = False

    def reset(self, task: Task) -> tuple[str, Observation]:
        path = self._path(task)
        if path != self._loaded:
            self._loaded = None
            self._game.load(str(path))
            self._loaded = path
        state = self._game.reset()
        self._playing = True
        _, found, instruction = state.feedback.rpartition(_TASK)
        if not found:
            raise EnvironmentFailure(f"{path}: the game's first text does not say {_TASK!r}")
        return instruction, _observe(state)

    def step(self, action: str) -> Observation:
        if not self._playing:
            raise EnvironmentFailure("step was called before reset, or after close")
        state, _, _ = self._game.step(action)
        return _observe(state)

    def close(self) -> None:
        self._playing = False
        self._loaded = None
        self._game.close()


def _observe(state: Any) -> Observation:
    return Observation(
        text=state.feedback,
        admissible=tuple(command for command in state.admissible_commands if command != "help"),
        done=state.won,
        success=state.won,
        score=100.0 if state.won else 0.0,
        # The planner adds axioms and negations of its own: the state is the facts of the domain.
        state=digest_of(
            (fact.name, *(variable.name for variable in fact.arguments))
            for fact in state["_facts"]
            if fact.name in ARITY
        ),
    )


def _open_engine() -> Any:
    require_textworld()
    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos
    from textworld.envs.pddl import PddlEnv

    _work_out_once()
    wanted = textworld.EnvInfos(won=True, admissible_commands=True)
    return AlfredInfos(AlfredDemangler(PddlEnv(wanted), shuffle=False))


@lru_cache(maxsize=1)
def _work_out_once() -> None:
    """The engine works out the same things again and again, and they depend on nothing but their text.

    Loading and resetting translate a game four times, twice of them for the planner, which nobody asks here: once is
    enough. Every step parses the same sentences of the grammar and the same questions to the state. What a sentence is
    told about is copied for every symbol of it, down to the last string, though only the two tables are ever changed.
    """
    import fast_downward
    from textworld.envs.pddl import textgen
    from textworld.logic import Rule

    translate = lru_cache(maxsize=1)(fast_downward.pddl2sas)

    def translated(domain: str, problem: str, verbose: bool = False, optimize: bool = False) -> Any:
        return translate(domain, problem, verbose)

    fast_downward.pddl2sas = translated
    textgen._PARSER.parse = lru_cache(maxsize=4096)(textgen._PARSER.parse)
    Rule.parse_conjunctive_query = staticmethod(lru_cache(maxsize=4096)(Rule.parse_conjunctive_query))
    textgen.copy_context = lambda told: told | {name: dict(told[name]) for name in ("variables", "mapping")}
