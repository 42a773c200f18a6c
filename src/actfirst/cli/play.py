"""`actfirst play`: a person plays a task in the terminal, or watches a model think and act."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.acts import Act, plan_of

if TYPE_CHECKING:
    from rich.console import Console

    from actfirst.config.sections import Config, ReferencesSection
    from actfirst.records import Reference, Task
    from actfirst.training.parts import Stage


def play(
    recipe: Annotated[
        str, typer.Argument(help="A recipe's name or a .toml file; its environment is played.")
    ] = "pocket",
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings that replace the recipe's.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="Watch this model: pocket:student, pocket:teacher, a checkpoint folder or a run folder."
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(help="A task's id, or a part of it that no other has.")] = None,
    seed: Annotated[int | None, typer.Option(help="Seed of the choice of task and of sampling.")] = None,
    act: Annotated[
        Act, typer.Option(help="How the model acts: with reasoning, without, or guided.")
    ] = Act.THINK,
) -> None:
    """Play a task yourself, or watch a model.

    \b
    actfirst play pocket
    actfirst play pocket environment.seed=7 --model pocket:student
    actfirst play pocket --model runs/pocket-1 --task unseen/000003 --act guided
    """
    from rich.console import Console

    from actfirst.config.load import resolve
    from actfirst.terminal.play import find_task, play_by_hand
    from actfirst.training.parts import open_stage

    config = resolve(recipe, overrides or [])
    stage, console = open_stage(config.environment, config.pool), Console(highlight=False)
    chosen = find_task(stage.world, config.evaluation.splits or stage.world.splits(), task, seed)
    if model is None:
        environment = stage.world.open()
        play_by_hand(
            console,
            input,
            environment,
            chosen,
            stage.world.turn_limit,
            _reference(stage, config.references, chosen),
        )
        environment.close()
        return
    asyncio.run(_watch(console, config, stage, chosen, model, seed or 0, act))


async def _watch(
    console: Console, config: Config, stage: Stage, task: Task, model: str, seed: int, act: Act
) -> None:
    from actfirst.engines.open import open_engine
    from actfirst.methods.acting import EpisodeTools, Progress
    from actfirst.models.folder import find_model
    from actfirst.policy.tokens import open_encoder
    from actfirst.rollout.episode import EpisodeKey
    from actfirst.rollout.episode import play as play_episode
    from actfirst.terminal.narrate import Narrated, show_end

    plan, folder = plan_of(act), find_model(model, "--model")
    engine = open_engine(config.engine, folder)
    try:
        policy = stage.policy(engine, open_encoder(folder), config.evaluation.generation)
        reference = _reference(stage, config.references, task) if plan.needs_reference else None
        actor = Narrated(
            console, plan.begin(EpisodeTools(policy, stage.rules, reference, Progress())), stage.rules
        )
        console.print(f"{model} plays {task.id}", style="bold", markup=False)
        async with stage.pool.lease() as environment:
            key = EpisodeKey(0, 0, task, seed)
            limit = stage.world.turn_limit
            episode = await play_episode(key, environment, actor, stage.rules, limit, reference=reference)
        show_end(console, episode)
    finally:
        await engine.close()
        await stage.pool.close()


def _reference(stage: Stage, settings: ReferencesSection, task: Task) -> Reference | None:
    """The reference of a task where the world has references."""
    from actfirst.errors import ConfigError
    from actfirst.training.parts import open_references

    try:
        return open_references(stage, settings).get(task)
    except ConfigError:
        return None
