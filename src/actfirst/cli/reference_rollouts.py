"""`actfirst references build --teacher`: a model plays every task, and its rollouts are candidates."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.cli.progress import progress
from actfirst.terminal.visible import say

if TYPE_CHECKING:
    from actfirst.config.config import Config
    from actfirst.records import Task
    from actfirst.references.sources import Import


def play_teacher(config: Config, model: str, count: int, tasks: Sequence[Task], out: Path) -> Import:
    """Let a model play every task; its rollouts are candidates, in a file beside the store."""
    from actfirst.models.folder import resolve_model
    from actfirst.references.sources import Import
    from actfirst.runs.preparation import cost_file, read
    from actfirst.training.teacher_rollouts import TeacherRollouts

    folder = resolve_model(model, "--teacher")
    name = _model_name(model, folder)
    path = out.with_name(f"{out.name}.rollouts-{name}.jsonl")

    async def play(told: Callable[[int, int, str], None]) -> None:
        from actfirst.training.playing import engines_of, in_play, open_player

        async with open_player(config, folder) as (_, player):
            at_once = in_play(config.evaluation, engines_of(config))
            rollouts = TeacherRollouts(
                player, name, count, config.run.seed, path, at_once, config.environment.name
            )
            await rollouts.collect(tasks, lambda done, of: told(done, of, f"by {name}"))

    with progress("rollouts") as told:
        asyncio.run(play(told))
    if cost := read(path):
        say(
            f"{name}: {cost.candidates:,} candidates, {cost.environment_steps:,} environment steps "
            f"in {cost.seconds:,.1f} s ({cost_file(path)})"
        )
    return Import(path, f"teacher:{name}")


def _model_name(model: str, folder: Path) -> str:
    """The last part of what a person calls a model, and a digest of where it is: others may be called alike."""
    last = model.rstrip("/").replace(":", "/").split("/")[-1]
    return f"{last}-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]}"
