"""What each stage of `actfirst prepare` does: from the model that it begins with to its result in the folder.

A stage goes on where it was stopped. Beside its result it leaves a row of the paper's table "Offline preparation
costs" (`runs/preparation.py`); evaluation is no part of that table.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.teacher_sections import StageName
from actfirst.environments.registry import hosting, kind_of, open_world
from actfirst.models.folder import fingerprint
from actfirst.references.build.build import Plan, build_store
from actfirst.references.build.coverage import coverage
from actfirst.references.sources import Import
from actfirst.references.store import Attempt, ReferenceStore
from actfirst.runs import preparation
from actfirst.runs.files import read_json_lines, write_json
from actfirst.runs.lines import BatchLine, Summary
from actfirst.runs.preparation import Preparation
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import CONFIG, SUMMARY
from actfirst.training.open import train
from actfirst.training.playing import engines_of, evaluate_model, in_play, open_player
from actfirst.training.sft import SftWatcher, fine_tune
from actfirst.training.teacher_rollouts import TeacherRollouts
from actfirst.training.watch import Watcher

Gave = Mapping[str, float | int | str | None]


class StageWatcher:
    """Told of everything that a person may want to see of a stage at work. This one looks at nothing."""

    def progress(self, done: int, of: int) -> None: ...

    def sft(self) -> SftWatcher:
        return SftWatcher()

    def training(self, folder: Path) -> Watcher:
        return Watcher()


@dataclass(frozen=True)
class Call:
    """What a stage is given. `config` is the recipe as the stage uses it, `model` what it begins with, `result` the
    folder or file that it makes."""

    config: Config
    model: Path
    result: Path
    watcher: StageWatcher

    @property
    def candidates(self) -> Path:
        return self.result.with_name(STAGES["candidates"].result)

    @property
    def tasks(self) -> int | None:
        """That many training tasks get candidates and references; None: all."""
        return self.config.prepare.tasks or None


def sft(call: Call) -> Gave:
    resume = (call.result / CONFIG).is_file()
    summary = fine_tune(call.config, call.result, resume=resume, watcher=call.watcher.sft())
    _write_cost(call, "sft", summary)
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


def gigpo(call: Call) -> Gave:
    resume, watcher = (call.result / CONFIG).is_file(), call.watcher.training(call.result)
    summary = train(call.config, call.result, resume=resume, watcher=watcher)
    _write_cost(call, "gigpo", summary)
    return {
        "method": call.config.rollout.method,
        "updates": summary.updates,
        "success before %": summary.success_rate.before,
        "success after %": summary.success_rate.after,
        "training seconds": round(summary.training_seconds, 1),
    }


def _write_cost(call: Call, stage: preparation.Stage, summary: Summary) -> None:
    """A run knows what all its sessions cost."""
    batches = [line for line in open_run(call.result).lines if isinstance(line, BatchLine)]
    cost = Preparation(
        environment=call.config.environment.name,
        stage=stage,
        model=_name(call),
        seconds=round(summary.training_seconds, 2),
        updates=summary.updates,
        environment_steps=sum(line.transitions for line in batches),
    )
    preparation.write(call.result, cost)


def evaluate(call: Call) -> Gave:
    result = asyncio.run(evaluate_model(call.config, call.model, call.watcher.progress))
    write_json(call.result, {"model": str(call.model), "result": result.to_json()})
    found = result.overall
    return {
        "tasks": found.tasks,
        "success %": found.success_rate.mean,
        "score": found.score.mean,
        "rounds": found.rounds.mean,
    }


def candidates(call: Call) -> Gave:
    config = call.config

    async def play() -> None:
        async with open_player(config, call.model) as (stage, player):
            rollouts = TeacherRollouts(
                player=player,
                model=_name(call),
                count=config.prepare.rollouts,
                seed=config.run.seed,
                path=call.result,
                at_once=in_play(config.evaluation, engines_of(config)),
                environment=config.environment.name,
            )
            await rollouts.collect(stage.world.tasks("train")[: call.tasks], call.watcher.progress)

    asyncio.run(play())
    scored = sum(bool(line["actions"]) for line in read_json_lines(call.result))
    cost = preparation.read(call.result)
    steps = cost.environment_steps if cost else 0
    return {"candidates": cost.candidates if cost else 0, "environment_steps": steps, "that scored": scored}


def references(call: Call) -> Gave:
    config, begun, replayed = call.config, time.monotonic(), 0
    kind, opener = kind_of(config.environment), partial(open_world, config.environment)
    tasks = opener().tasks("train")[: call.tasks]
    scored = any(line["actions"] for line in read_json_lines(call.candidates))
    plan = Plan(
        sources=(config.references.source,) if kind.sources.ways else (),
        imports=(Import(call.candidates, "teacher"),) if scored else (),
        workers=(os.cpu_count() or 1) if hosting(config.environment).processes else 0,
    )

    def told(done: int, of: int, attempt: Attempt | None) -> None:
        nonlocal replayed
        replayed += attempt.candidates if attempt else 0
        call.watcher.progress(done, of)

    build_store(kind, opener, plan, tasks, call.result, config.environment.model_dump(mode="json"), told)
    cost = Preparation(
        environment=config.environment.name,
        stage="references",
        seconds=round(time.monotonic() - begun, 2),
        candidates=replayed,
    )
    preparation.add(call.result, cost)
    store = ReferenceStore.read(call.result)
    return {
        "tasks": len(tasks),
        "references": len(store),
        "from the teacher": coverage(store).sources.get("teacher", 0),
    }


def _name(call: Call) -> str:
    """What a model is called: the stage that made it, or its folder."""
    home = call.result.parent
    return call.model.relative_to(home).parts[0] if call.model.is_relative_to(home) else call.model.name


@dataclass(frozen=True)
class Stage:
    """One row of the table below. `result` is the name of what it makes in the folder; `feeds` are the stages that are
    built on it, where they come later. A stage that makes no model leaves the one that it began with to the next."""

    run: Callable[[Call], Gave]
    result: str
    feeds: tuple[StageName, ...] = ()
    makes_model: bool = False

    def is_whole(self, folder: Path) -> bool:
        """Whether the result of the finished stage is there."""
        result = folder / self.result
        if not self.makes_model:
            return result.is_file()
        return (result / SUMMARY).is_file() and bool(open_run(result).checkpoints())


_PLAYED: tuple[StageName, ...] = ("evaluate", "candidates", "references")
STAGES: Mapping[StageName, Stage] = {
    "sft": Stage(sft, "sft", feeds=("gigpo", *_PLAYED), makes_model=True),
    "gigpo": Stage(gigpo, "gigpo", feeds=("sft", *_PLAYED), makes_model=True),
    "evaluate": Stage(evaluate, "evaluation.json"),
    "candidates": Stage(candidates, "candidates.jsonl", feeds=("references",)),
    "references": Stage(references, "references.jsonl"),
}


def built_on(name: StageName, model: Path, folder: Path) -> str:
    """The fingerprint of what a stage is built on: the model, or the candidates that references are chosen from."""
    return fingerprint(folder / STAGES["candidates"].result if name == "references" else model)
