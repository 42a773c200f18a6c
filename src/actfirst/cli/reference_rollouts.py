"""`actfirst references build --teacher`: a model plays every task, and its rollouts are candidates."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.cli.progress import progress

if TYPE_CHECKING:
    from actfirst.config.sections import Config
    from actfirst.records import Task
    from actfirst.references.build.build import Import


def play_teacher(config: Config, model: str, count: int, tasks: Sequence[Task], out: Path) -> Import:
    """Let a model play every task; its rollouts are candidates, in a file beside the store."""
    from actfirst.models.folder import find_model
    from actfirst.references.build.build import Import
    from actfirst.training.teacher_rollouts import TeacherRollouts

    folder = find_model(model, "--teacher")
    name = _model_name(model, folder)
    path = out.with_name(f"{out.name}.rollouts-{name}.jsonl")

    async def play(told: Callable[[int, int, str], None]) -> None:
        from actfirst.engines.open import open_engine
        from actfirst.evaluate.protocol import Evaluator
        from actfirst.policy.tokens import open_encoder
        from actfirst.training.parts import open_stage

        stage, section = open_stage(config.environment, config.pool), config.evaluation
        engine = open_engine(config.engine, folder)
        try:
            policy = stage.policy(engine, open_encoder(folder), section.generation)
            evaluator = Evaluator(
                stage.pool,
                stage.rules,
                stage.world.turn_limit,
                section.batch_tasks,
                retries=config.pool.retries,
            )
            rollouts = TeacherRollouts(evaluator, policy, name, count, config.run.seed, path)
            await rollouts.collect(tasks, lambda done, of: told(done, of, f"by {name}"))
        finally:
            await engine.close()
            await stage.pool.close()

    with progress("rollouts") as told:
        asyncio.run(play(told))
    return Import(path, f"teacher:{name}")


def _model_name(model: str, folder: Path) -> str:
    """The last part of what a person calls a model, and a digest of where it is: others may be called alike."""
    last = model.rstrip("/").replace(":", "/").split("/")[-1]
    return f"{last}-{hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:8]}"
