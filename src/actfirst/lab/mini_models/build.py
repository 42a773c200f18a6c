"""Makes the models of a recipe such as `alfworld-mini` from nothing, on real training tasks. One call, resumable.

    start     a tokenizer of the world, and random weights that can copy
    base      recipe RECIPE-base: what is learned first, such as short prompts, or all but what comes late in a task
    teacher   recipe RECIPE-teacher: the base, trained on by the demonstrator at all stages
    student   recipe RECIPE-student: the teacher, which a novice makes unlearn late stages in a few steps

They are runs of `actfirst sft`, so a stopped one goes on where it was, and their recipes say everything: what the
student lacks is in `sft.data` of its recipe.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from actfirst import __version__
from actfirst.config.load import resolve
from actfirst.environments.base import World
from actfirst.environments.registry import Kind, kind_of, open_world
from actfirst.errors import ConfigError
from actfirst.lab.mini_models.copying import write_copying
from actfirst.lab.mini_models.vocabulary import make_tokenizer
from actfirst.lab.pocket_models.build import publish
from actfirst.lab.pocket_models.new_model import Shape, new_model
from actfirst.models.folder import resolve_model
from actfirst.reading import parse_json
from actfirst.runs.files import write_json
from actfirst.runs.run_folder import CONFIG, SUMMARY
from actfirst.training.sft import SftWatcher, fine_tune

Say = Callable[[str], None]

RESULT_FILE = "build_result.json"
_BASE, _TEACHER = "base", "teacher"
_STAGES = (_BASE, _TEACHER, "student")
SHAPE = Shape(hidden=128, layers=4, heads=4, head_dim=64, mlp=384)


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """A whole build: the size of both models, walks that the tokenizer reads at most, and settings for all recipes."""

    shape: Shape = SHAPE
    vocabulary_walks: int = 900
    settings: tuple[str, ...] = ()


def build_models(
    recipe: str, out: Path, plan: BuildPlan, say: Say, watch: Callable[[], SftWatcher]
) -> dict[str, Any]:
    """Write `student/`, `teacher/` and build_result.json into `out`; a stopped build is continued."""
    work = out / "work"
    model = _start(work / "start", recipe, plan, say)
    result: dict[str, Any] = {"actfirst": __version__, "plan": asdict(plan), "models": {}}
    for name in _STAGES:
        run = work / name
        if (run / SUMMARY).is_file():
            say(f"{name}: already trained")
        else:
            say(f"{name}: begins with {model}")
            begins = json.dumps(str(model))
            settings = (f"models.student={begins}", f"models.teacher={begins}", *plan.settings)
            fine_tune(
                resolve(f"{recipe}-{name}", settings),
                run,
                resume=(run / CONFIG).is_file(),
                watcher=watch(),
            )
        model = resolve_model(str(run), name)
        if name != _BASE:
            publish(model, out / name)
            model = out / name  # the student begins with the teacher as it ships
        result["models"][name] = parse_json((run / SUMMARY).read_bytes())
    write_json(out / RESULT_FILE, result)
    return result


def _start(folder: Path, recipe: str, plan: BuildPlan, say: Say) -> Path:
    if not (folder / "tokenizer.json").is_file():
        kind, world = _open(recipe, plan.settings)
        say("tokenizer: collecting the words of the tasks")
        tokenizer = make_tokenizer(kind, world, plan.vocabulary_walks)
        model = new_model(plan.shape, tokenizer, kind.lexicon.spellings)
        write_copying(model)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        say(f"{len(tokenizer)} tokens, {sum(part.numel() for part in model.parameters()):,} parameters")
    return folder


def _open(recipe: str, settings: Sequence[str]) -> tuple[Kind, World]:
    section = resolve(f"{recipe}-{_TEACHER}", settings).environment
    kind = kind_of(section)
    if kind.sources.demonstrator is None or kind.sources.novice is None:
        raise ConfigError(f"{kind.name} has no demonstrator with a novice from which small models could learn")
    kind.require(section)
    world = open_world(section)
    if "train" not in world.splits():
        raise ConfigError(f"{section!r} has no training tasks (train); the models are made from them")
    return kind, world
