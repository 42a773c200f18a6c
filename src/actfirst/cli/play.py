"""`actfirst play`: a person plays a task in the terminal, or watches a model think and act."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.options import Overrides
from actfirst.cli.verify import say_faults
from actfirst.methods.strategies import Strategy

if TYPE_CHECKING:
    from actfirst.config.config import Config
    from actfirst.config.sections import ReferencesSection
    from actfirst.records import Task
    from actfirst.references.base import References
    from actfirst.rollout.stage import Stage
    from actfirst.terminal.console import Console


def play(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or a .toml file.")] = "pocket",
    overrides: Overrides = None,
    model: Annotated[str | None, typer.Option(help="Watch this model: a checkpoint or run folder.")] = None,
    task: Annotated[str | None, typer.Option(help="A task's id, or a part of it that no other has.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the choice of task and of sampling.")] = None,
    act: Annotated[Strategy, typer.Option(help="Reason first, act directly, or guided.")] = Strategy.THINK,
) -> None:
    """Play a task yourself, or watch a model.

    \b
    actfirst play pocket
    actfirst play pocket environment.seed=7 --model pocket:student
    actfirst play pocket --model runs/pocket-1 --task unseen/000003 --act guided
    """
    from actfirst.config.load import resolve
    from actfirst.rollout.stage import open_stage
    from actfirst.terminal.console import Console
    from actfirst.terminal.play import find_task, play_by_hand

    config = resolve(recipe, overrides or [])
    stage, console = open_stage(config.environment, config.pool), Console(highlight=False)
    chosen = find_task(stage.world, config.evaluation.splits or stage.world.splits(), task, seed)
    if model is None:
        environment, reference = stage.world.open(), _references(stage, config.references).get(chosen)
        play_by_hand(console, input, environment, chosen, stage.world.turn_limit, reference)
        environment.close()
        return
    asyncio.run(_watch(console, config, stage, chosen, model, seed or 0, act))


async def _watch(
    console: Console, config: Config, stage: Stage, task: Task, model: str, seed: int, act: Strategy
) -> None:
    from actfirst.engines.open import open_engine
    from actfirst.models.folder import resolve_model
    from actfirst.policy.tokens import open_encoder
    from actfirst.rollout.play import EpisodeKey
    from actfirst.terminal.narrate import Narrated, show_end

    say_faults(model)
    acting, folder = act.acting, resolve_model(model, "--model")
    engine = open_engine(config.engine, folder)
    try:
        policy = stage.policy(engine, open_encoder(folder), config.evaluation.generation)
        player = stage.player(policy, 0, _references(stage, config.references))
        console.print(f"{model} plays {task.id}", style="bold", markup=False)
        show_end(console, await player.play(EpisodeKey(0, 0, task, seed), Narrated(console, acting)))
    finally:
        await engine.close()
        await stage.pool.close()


def _references(stage: Stage, settings: ReferencesSection) -> References:
    """The references of a world, or none where it has none."""
    from actfirst.errors import ConfigError
    from actfirst.references.base import NoReferences
    from actfirst.rollout.stage import open_references

    try:
        return open_references(stage, settings)
    except ConfigError:
        return NoReferences()
