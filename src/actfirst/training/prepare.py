"""From a base model to a teacher and references: the stages that a recipe's section `prepare` names, one after another.

    sft          supervised fine-tuning            DIR/sft/          a run
    gigpo        reinforcement learning            DIR/gigpo/        a run
    evaluate     the evaluation protocol           DIR/evaluation.json
    candidates   rollouts of the new teacher       DIR/candidates.jsonl
    references   the best of all candidates        DIR/references.jsonl

Paper, appendix "Teacher Training and Reference Construction". Each stage begins with what the stage before it made. A
stage whose result is there and whole is skipped, one that was stopped goes on; DIR/prepare.md and DIR/prepare.json say
what each cost and gave.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.config.teacher_sections import StageName
from actfirst.environments.registry import hosting, kind_of, open_world
from actfirst.errors import ConfigError, RunFolderError
from actfirst.models.folder import find_model
from actfirst.models.fresh import start_model
from actfirst.records import Task
from actfirst.references.build.build import Plan, build_store
from actfirst.references.build.coverage import coverage
from actfirst.references.sources import Import
from actfirst.references.store import ReferenceStore
from actfirst.runs import preparation
from actfirst.runs.files import read_json_lines, write_atomically, write_json
from actfirst.runs.lock import RunLock
from actfirst.runs.record import Record, parse, read_object
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import CONFIG, SUMMARY
from actfirst.training.open import train
from actfirst.training.playing import engines_of, evaluate_model, in_play, open_player
from actfirst.training.sft import SftWatcher, fine_tune
from actfirst.training.teacher_rollouts import TeacherRollouts
from actfirst.training.watch import Watcher

STATE, PAGE = "prepare.json", "prepare.md"
EVALUATION, CANDIDATES, REFERENCES = "evaluation.json", "candidates.jsonl", "references.jsonl"
Gave = Mapping[str, float | int | str | None]


class StageRecord(Record):
    """A finished stage: what it was asked for, what it cost and what it gave."""

    name: StageName
    settings: tuple[str, ...]
    model: str
    seconds: float
    gave: dict[str, float | int | str | None]


class PrepareRecord(Record):
    """All finished stages of a folder."""

    recipe: str
    overrides: tuple[str, ...]
    start: str
    stages: tuple[StageRecord, ...] = ()


class PrepareWatcher:
    """Told of everything that a person may want to see. This one looks at nothing."""

    def skipped(self, stage: StageRecord) -> None: ...

    def began(self, name: StageName, model: Path) -> None: ...

    def ended(self, stage: StageRecord) -> None: ...

    def progress(self, done: int, of: int) -> None: ...

    def sft(self) -> SftWatcher:
        return SftWatcher()

    def training(self, folder: Path) -> Watcher:
        return Watcher()


def prepare(
    recipe: str, overrides: Sequence[str], folder: Path, watcher: PrepareWatcher | None = None
) -> PrepareRecord:
    """Run every stage that is not done yet; returns what all of them cost and gave."""
    config = resolve(recipe, overrides)
    if not config.prepare.stages:
        raise ConfigError(
            f"{recipe} does not say how it is prepared: set prepare.stages, as in the recipe pocket-prepare"
        )
    folder.mkdir(parents=True, exist_ok=True)
    lock = RunLock.take(folder)
    try:
        return _Pipeline(recipe, tuple(overrides), config, folder, watcher or PrepareWatcher()).run()
    finally:
        lock.release()


@dataclass
class _Pipeline:
    recipe: str
    overrides: tuple[str, ...]
    config: Config
    folder: Path
    watcher: PrepareWatcher

    def run(self) -> PrepareRecord:
        section = self.config.prepare
        start = section.start or self.config.models.student
        done = self._before(start)
        model = start_model(start, "prepare.start", self.folder / "start", self.config.run.seed)
        for name in section.stages:
            settings = tuple(getattr(section, name, ()))
            finished = next((one for one in done.stages if one.name == name), None)
            if finished is not None and self._whole(finished, settings):
                self.watcher.skipped(finished)
            else:
                self.watcher.began(name, model)
                began = time.monotonic()
                spent = finished.seconds if finished else 0.0
                gave = _STAGES[name](self, self._config(name, settings, model), model)
                seconds = round(spent + time.monotonic() - began, 2)
                finished = StageRecord(
                    name=name, settings=settings, model=str(model), seconds=seconds, gave=dict(gave)
                )
                others = tuple(one for one in done.stages if one.name != name)
                done = done.model_copy(update={"stages": (*others, finished)})
                write_json(self.folder / STATE, done.to_json())
                write_atomically(self.folder / PAGE, page(done))
                self.watcher.ended(finished)
            if name in _MODEL_STAGES:
                model = find_model(str(self.folder / name), f"prepare, stage {name}")
        return done

    def _before(self, start: str) -> PrepareRecord:
        new = PrepareRecord(recipe=self.recipe, overrides=self.overrides, start=start)
        path = self.folder / STATE
        if not path.is_file():
            write_json(path, new.to_json())
            return new
        found = parse(read_object(path), PrepareRecord, str(path))
        if (found.recipe, found.overrides, found.start) != (new.recipe, new.overrides, new.start):
            raise RunFolderError(
                f"{self.folder} was prepared with other settings ({found.recipe} {' '.join(found.overrides)}); "
                "repeat those, or choose another folder"
            )
        return found

    def _whole(self, stage: StageRecord, settings: tuple[str, ...]) -> bool:
        """Whether the result of a finished stage is still there; another recipe's result is refused."""
        if stage.settings != settings:
            raise RunFolderError(
                f"stage {stage.name} in {self.folder} was made with other settings ({' '.join(stage.settings)}); "
                "bring them back, or choose another folder"
            )
        if stage.name in _MODEL_STAGES:
            run = self.folder / stage.name
            return (run / SUMMARY).is_file() and bool(open_run(run).checkpoints())
        return (self.folder / _FILES[stage.name]).is_file()

    def _config(self, name: StageName, settings: Sequence[str], model: Path) -> Config:
        """The recipe as a stage uses it. The teacher that a method may ask is what the stage begins with."""
        models = [f"models.student={_quoted(model)}", f"models.teacher={_quoted(model)}"]
        own = self.config.prepare.gigpo_recipe if name == "gigpo" else ""
        return resolve(own or self.recipe, [*self.overrides, *models, *settings])

    def sft(self, config: Config, model: Path) -> Gave:
        run = self.folder / "sft"
        summary = fine_tune(config, run, resume=(run / CONFIG).is_file(), watcher=self.watcher.sft())
        before, after = summary.held_out
        return {
            "steps": summary.updates,
            "examples": summary.examples,
            "loss": summary.last_loss,
            "held-out loss before": before,
            "held-out loss after": after,
            "success %": summary.success_rate.after,
            "training seconds": round(summary.training_seconds, 1),
        }

    def gigpo(self, config: Config, model: Path) -> Gave:
        run = self.folder / "gigpo"
        summary = train(config, run, resume=(run / CONFIG).is_file(), watcher=self.watcher.training(run))
        return {
            "method": config.rollout.method,
            "updates": summary.updates,
            "success before %": summary.success_rate.before,
            "success after %": summary.success_rate.after,
            "training seconds": round(summary.training_seconds, 1),
        }

    def evaluate(self, config: Config, model: Path) -> Gave:
        result = asyncio.run(evaluate_model(config, model, self.watcher.progress))
        write_json(self.folder / EVALUATION, {"model": str(model), "result": result.to_json()})
        found = result.overall
        return {
            "tasks": found.tasks,
            "success %": found.success_rate.mean,
            "score": found.score.mean,
            "rounds": found.rounds.mean,
        }

    def candidates(self, config: Config, model: Path) -> Gave:
        path = self.folder / CANDIDATES

        async def play() -> None:
            async with open_player(config, model) as (stage, player):
                tasks = _tasks(config, stage.world.tasks("train"))
                rollouts = TeacherRollouts(
                    player=player,
                    model=model.parent.parent.parent.name or model.name,
                    count=config.prepare.rollouts,
                    seed=config.run.seed,
                    path=path,
                    at_once=in_play(config.evaluation, engines_of(config)),
                    environment=config.environment.name,
                )
                await rollouts.collect(tasks, self.watcher.progress)

        asyncio.run(play())
        scored = sum(bool(line["actions"]) for line in read_json_lines(path))
        cost = preparation.read(path)
        steps = cost.environment_steps if cost else 0
        return {"candidates": cost.candidates if cost else 0, "environment_steps": steps, "that scored": scored}

    def references(self, config: Config, model: Path) -> Gave:
        kind, opener = kind_of(config.environment), partial(open_world, config.environment)
        tasks = _tasks(config, opener().tasks("train"))
        played, store = self.folder / CANDIDATES, self.folder / REFERENCES
        plan = Plan(
            sources=(config.references.source,) if kind.sources.ways else (),
            imports=(Import(played, "teacher"),) if _any_candidate(played) else (),
            workers=(os.cpu_count() or 1) if hosting(config.environment).processes else 0,
        )
        configuration = config.environment.model_dump(mode="json")
        told = self.watcher.progress
        build_store(kind, opener, plan, tasks, store, configuration, lambda done, of, _: told(done, of))
        found = coverage(ReferenceStore.read(store))
        return {
            "tasks": len(tasks),
            "references": len(ReferenceStore.read(store)),
            "from the teacher": found.sources.get("teacher", 0),
        }


_MODEL_STAGES = ("sft", "gigpo")
_FILES = {"evaluate": EVALUATION, "candidates": CANDIDATES, "references": REFERENCES}
_STAGES: dict[StageName, Callable[[_Pipeline, Config, Path], Gave]] = {
    "sft": _Pipeline.sft,
    "gigpo": _Pipeline.gigpo,
    "evaluate": _Pipeline.evaluate,
    "candidates": _Pipeline.candidates,
    "references": _Pipeline.references,
}


def page(record: PrepareRecord) -> str:
    """What each stage cost and gave, in Markdown."""
    rows = [
        f"| {stage.name} | {stage.seconds:,.1f} | {'; '.join(_words(stage.gave))} |" for stage in record.stages
    ]
    whole = sum(stage.seconds for stage in record.stages)
    return "\n".join(
        [
            f"# Prepared by {record.recipe}",
            "",
            f"Begun with `{record.start}`{_listed(record.overrides)}. All stages together: {whole:,.1f} s.",
            "",
            "| stage | seconds | gave |",
            "|---|---:|---|",
            *rows,
            "",
        ]
    )


def _listed(overrides: Sequence[str]) -> str:
    return f" and {', '.join(f'`{one}`' for one in overrides)}" if overrides else ""


def _words(gave: Gave) -> list[str]:
    return [
        f"{key} {value:,.4g}" if isinstance(value, float) else f"{key} {value}"
        for key, value in gave.items()
        if value is not None
    ]


def _tasks(config: Config, tasks: Sequence[Task]) -> Sequence[Task]:
    return tasks[: config.prepare.tasks or len(tasks)]


def _any_candidate(path: Path) -> bool:
    return any(line["actions"] for line in read_json_lines(path))


def _quoted(path: Path) -> str:
    return json.dumps(str(path))
