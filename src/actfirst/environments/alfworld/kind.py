"""ALFWorld as an environment of actfirst."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from importlib.resources import files
from pathlib import Path

from actfirst.environments.alfworld.lexicon import LEXICON
from actfirst.environments.alfworld.rules import AlfworldRules
from actfirst.environments.alfworld.section import AlfworldSection
from actfirst.environments.alfworld.sources import sources
from actfirst.environments.base import INLINE, EnvironmentKind, Hosting, PromptForms, World
from actfirst.environments.comparing import Comparing, Contestant, Told, Verdict, Verification
from actfirst.environments.findings import Check
from actfirst.records import Observation


def _open(section: AlfworldSection) -> World:
    from actfirst.environments.alfworld.world import AlfworldWorld

    return AlfworldWorld(Path(section.folder).expanduser(), section.turn_limit, section.engine)


def _hosting(section: AlfworldSection) -> Hosting:
    textworld = Hosting(processes=True, per_worker=1, threads=False)
    return textworld if section.engine == "textworld" else INLINE


def _require(section: AlfworldSection) -> None:
    from actfirst.environments.alfworld.textworld_engine import require_textworld

    if section.engine == "textworld":
        require_textworld()


def _checks() -> Sequence[Check]:
    from actfirst.environments.alfworld.checks import CHECKS

    return CHECKS


def _engines(
    folder: Path | None, python: str, count: int
) -> AbstractContextManager[tuple[Sequence[Contestant], str]]:
    from actfirst.environments.alfworld.files import both_engines

    return both_engines(folder, python, count)


def _verify(asked: Verification, told: Told) -> Verdict:
    from actfirst.environments.alfworld.verify import verify

    return verify(asked, told)


def _action_values(observation: Observation) -> Mapping[str, Sequence[str]]:
    return {"admissible_actions": [action for action in observation.admissible if action != "help"]}


PROMPTS = PromptForms(files("actfirst.environments.alfworld") / "templates", _action_values)

KIND = EnvironmentKind(
    name="alfworld",
    section=AlfworldSection,
    open=_open,
    rules=AlfworldRules(),
    prompts=PROMPTS,
    hosting=_hosting,
    require=_require,
    sources=sources(experienced=True),
    checks=_checks,
    lexicon=LEXICON,
    comparing=Comparing(_engines, _verify),
)
