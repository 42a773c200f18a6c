"""Makes the models of `alfworld-mini` from nothing, on the real training games. One call, resumable.

    start     a tokenizer of the domain, and random weights
    base      recipe alfworld-mini-base: fine-tuned by a demonstrator that lacks what comes late in a task
    teacher   recipe alfworld-mini-teacher: the base, trained on by the expert at all stages
    student   recipe alfworld-mini-student: the base, trained on a little without late stages

All three are runs of `actfirst sft`, so a stopped one goes on where it was, and their recipes say everything: what the
student lacks is in `sft.data` of its recipe.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from actfirst import __version__
from actfirst.config.load import resolve
from actfirst.environments.alfworld.section import AlfworldSection
from actfirst.environments.alfworld.world import AlfworldWorld
from actfirst.environments.registry import open_world
from actfirst.errors import ConfigError
from actfirst.lab.mini_models.vocabulary import make_tokenizer
from actfirst.lab.pocket_models.build import Shape, new_model, publish
from actfirst.models.folder import find_model
from actfirst.reading import parse_json
from actfirst.runs.files import write_json
from actfirst.runs.run_folder import CONFIG, SUMMARY
from actfirst.training.sft import SftWatcher, fine_tune

Say = Callable[[str], None]

RESULT_FILE = "build_result.json"
_BASE = "base"
_MODELS = (_BASE, "teacher", "student")
SHAPE = Shape(hidden=128, layers=4, heads=4, head_dim=64, mlp=384)


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """A whole build: the size of both models, walks that the tokenizer reads, and settings for all recipes."""

    shape: Shape = SHAPE
    vocabulary_walks: int = 900
    settings: tuple[str, ...] = ()


def build_models(
    out: Path, folder: str, plan: BuildPlan, say: Say, watch: Callable[[], SftWatcher]
) -> dict[str, Any]:
    """Write `student/`, `teacher/` and build_result.json into `out`; a stopped build is continued."""
    work = out / "work"
    games = f"environment.folder={json.dumps(folder)}"
    model = _start(work / "start", _world(games), plan, say)
    result: dict[str, Any] = {"actfirst": __version__, "plan": asdict(plan), "models": {}}
    for name in _MODELS:
        run = work / name
        if (run / SUMMARY).is_file():
            say(f"{name}: already trained")
        else:
            say(f"{name}: begins with {model}")
            begins = json.dumps(str(model))
            settings = (games, f"models.student={begins}", f"models.teacher={begins}", *plan.settings)
            fine_tune(
                resolve(f"alfworld-mini-{name}", settings),
                run,
                resume=(run / CONFIG).is_file(),
                watcher=watch(),
            )
        if name == _BASE:
            model = find_model(str(run), name)
        else:
            publish(find_model(str(run), name), out / name)
        result["models"][name] = parse_json((run / SUMMARY).read_bytes())
    write_json(out / RESULT_FILE, result)
    return result


def _world(games: str) -> AlfworldWorld:
    section = resolve("alfworld-mini", (games,)).environment
    assert isinstance(section, AlfworldSection)
    world = open_world(section)
    assert isinstance(world, AlfworldWorld)
    if "train" not in world.splits():
        raise ConfigError(f"{section.folder} has no training games (train/); the models are made from them")
    return world


def _start(folder: Path, world: AlfworldWorld, plan: BuildPlan, say: Say) -> Path:
    if not (folder / "tokenizer.json").is_file():
        say("tokenizer: collecting the words of the games")
        tokenizer = make_tokenizer(world, plan.vocabulary_walks)
        model = new_model(plan.shape, tokenizer)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        say(f"{len(tokenizer)} tokens, {sum(part.numel() for part in model.parameters()):,} parameters")
    return folder
