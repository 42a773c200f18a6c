"""From a base model to a teacher and references: the stages that a recipe's section `prepare` names, one after another.

    sft          supervised fine-tuning            DIR/sft/          a run
    gigpo        reinforcement learning            DIR/gigpo/        a run
    evaluate     the evaluation protocol           DIR/evaluation.json
    candidates   rollouts of the new teacher       DIR/candidates.jsonl
    references   the best of all candidates        DIR/references.jsonl

Paper, appendix "Teacher Training and Reference Construction". Each stage begins with what the stage before it made. A
stage whose result is there and whole is skipped, one that was stopped goes on. One whose result is gone, or that was
built on something else than what is there now, is made again, and so are those that were built on it.
DIR/prepare.md and DIR/prepare.json say what each cost and gave. What the stages do is in `prepare_stages.py`.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.config.teacher_sections import StageName
from actfirst.errors import ConfigError, RunFolderError
from actfirst.models.folder import resolve_model
from actfirst.models.fresh import start_model
from actfirst.runs import preparation
from actfirst.runs.files import write_atomically, write_json, writing
from actfirst.runs.lock import RunLock
from actfirst.runs.record import Record, parse, read_object
from actfirst.training.prepare_stages import STAGES, Call, Gave, StageWatcher, built_on

STATE, PAGE = "prepare.json", "prepare.md"


class StageRecord(Record):
    """A stage: what it was asked for, what it cost and what it gave.

    `built_on` is a fingerprint of the model that it began with, or of the candidates that references were chosen from;
    empty where an older version wrote it. Without `finished` it was stopped.
    """

    name: StageName
    settings: tuple[str, ...]
    model: str
    built_on: str = ""
    finished: bool = True
    seconds: float
    gave: dict[str, float | int | str | None]


class PrepareRecord(Record):
    """All stages of a folder that were begun."""

    recipe: str
    overrides: tuple[str, ...]
    start: str
    stages: tuple[StageRecord, ...] = ()

    def stage(self, name: StageName) -> StageRecord | None:
        return next((stage for stage in self.stages if stage.name == name), None)

    def without(self, *names: StageName) -> PrepareRecord:
        return self.model_copy(update={"stages": tuple(one for one in self.stages if one.name not in names)})

    def plus(self, stage: StageRecord) -> PrepareRecord:
        stages = sorted((*self.without(stage.name).stages, stage), key=lambda one: list(STAGES).index(one.name))
        return self.model_copy(update={"stages": tuple(stages)})


class PrepareWatcher(StageWatcher):
    """Told of everything that a person may want to see. This one looks at nothing."""

    def skipped(self, stage: StageRecord) -> None: ...

    def again(self, name: StageName, reason: str, kept: Path | None) -> None:
        """A stage will be made again. Its old result, if there was one, is `kept`."""

    def began(self, name: StageName, model: Path) -> None: ...

    def ended(self, stage: StageRecord) -> None: ...


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
            base = built_on(name, model, self.folder)
            done = self._without_outdated(done, name, base)
            before = done.stage(name)
            if before is not None and before.finished:
                self.watcher.skipped(before)
            else:
                done = self._run(done, name, model, base)
            if STAGES[name].makes_model:
                model = resolve_model(str(self.folder / STAGES[name].result), f"prepare, stage {name}")
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

    def _without_outdated(self, done: PrepareRecord, name: StageName, base: str) -> PrepareRecord:
        """Without a stage that must be made again, and without all that was built on it."""
        stage, settings = done.stage(name), self._settings(name)
        if stage is None:
            return done
        if stage.settings != settings:
            raise RunFolderError(
                f"stage {stage.name} in {self.folder} was made with other settings ({' '.join(stage.settings)}); "
                "bring them back, or choose another folder"
            )
        if stage.finished and not STAGES[name].is_whole(self.folder):
            reason = "its result is gone"
        elif stage.built_on not in ("", base):
            reason = f"the {'candidates have' if name == 'references' else 'model before it has'} changed"
        else:
            return done
        outdated = {name: reason} | dict.fromkeys(self._fed_by(name), f"{name} is made again")
        for each, why in outdated.items():
            if (self.folder / STAGES[each].result).exists() or done.stage(each):
                self.watcher.again(each, why, self._set_aside(each))
        return self._keep(done.without(*outdated))

    def _fed_by(self, name: StageName) -> Iterator[StageName]:
        stages = self.config.prepare.stages
        return (later for later in stages[stages.index(name) + 1 :] if later in STAGES[name].feeds)

    def _set_aside(self, name: StageName) -> Path | None:
        """Nothing is deleted but the cost: that of the new result begins at 0."""
        result = self.folder / STAGES[name].result
        preparation.cost_file(result).unlink(missing_ok=True)
        if not result.exists():
            return None
        names = (result.with_name(f"{result.name}.outdated-{number}") for number in count(1))
        kept = next(path for path in names if not path.exists())
        with writing(kept):
            return result.rename(kept)

    def _run(self, done: PrepareRecord, name: StageName, model: Path, base: str) -> PrepareRecord:
        """Run one stage; how far it came is written down also if it is stopped."""
        before, settings = done.stage(name), self._settings(name)
        stage = before or StageRecord(
            name=name,
            settings=settings,
            model=str(model),
            built_on=base,
            finished=False,
            seconds=0.0,
            gave={},
        )
        done = self._keep(done.plus(stage))
        self.watcher.began(name, model)
        began, gave = time.monotonic(), dict[str, float | int | str | None]()
        call = Call(self._config(name, model), model, self.folder / STAGES[name].result, self.watcher)
        try:
            gave.update(STAGES[name].run(call))
        finally:
            seconds = round(stage.seconds + time.monotonic() - began, 2)
            stage = stage.model_copy(update={"finished": bool(gave), "seconds": seconds, "gave": gave})
            done = self._keep(done.plus(stage))
        self.watcher.ended(stage)
        return done

    def _keep(self, done: PrepareRecord) -> PrepareRecord:
        write_json(self.folder / STATE, done.to_json())
        write_atomically(self.folder / PAGE, page(done))
        return done

    def _settings(self, name: StageName) -> tuple[str, ...]:
        return tuple(getattr(self.config.prepare, name, ()))  # references have none

    def _config(self, name: StageName, model: Path) -> Config:
        """The recipe as a stage uses it. The teacher that a method may ask is what the stage begins with."""
        models = [f"models.student={json.dumps(str(model))}", f"models.teacher={json.dumps(str(model))}"]
        own = self.config.prepare.gigpo_recipe if name == "gigpo" else ""
        return resolve(own or self.recipe, [*self.overrides, *models, *self._settings(name)])


def page(record: PrepareRecord) -> str:
    """What each stage cost and gave, in Markdown."""
    rows = [
        f"| {stage.name} | {stage.seconds:,.1f} | {'; '.join(_words(stage.gave)) or 'stopped'} |"
        for stage in record.stages
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
