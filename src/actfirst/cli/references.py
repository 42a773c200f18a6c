"""`actfirst references`: build and look at offline reference trajectories."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import check_result_file, print_note, write_result

app = typer.Typer(help="Build and show offline reference trajectories.", no_args_is_help=True)


@app.command("build")
def build(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or a .toml file: which world.")],
    out: Annotated[Path, typer.Argument(help="The file to write; an unfinished one is completed.")],
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings that replace the recipe's.")
    ] = None,
    split: Annotated[str, typer.Option(help="The split whose tasks are covered.")] = "train",
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the report to this file.", callback=check_result_file),
    ] = None,
) -> None:
    """Replay what a world's games give (references.source) and keep what it shows.

    \b
    actfirst references build pocket references/pocket.jsonl
    actfirst train pocket references.path=references/pocket.jsonl
    """
    from dataclasses import asdict

    from rich.progress import Progress

    from actfirst.config.load import resolve
    from actfirst.references.build import build_store
    from actfirst.runtime.parts import game_world, open_stage

    config = resolve(recipe, overrides or [])
    world = game_world(open_stage(config.environment))
    with Progress(transient=True) as progress:
        bar = progress.add_task("replaying")
        report = build_store(
            world,
            config.references.source,
            world.tasks(split),
            out,
            lambda done, of: progress.update(bar, completed=done, total=of),
        )
    print_note(
        f"{out}: {report.covered} of {report.tasks} tasks covered, "
        f"{report.mean_actions:.1f} actions on average, {report.longest} at most"
    )
    write_result(json_file, asdict(report))


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(help="A reference file.")],
    recipe: Annotated[str, typer.Argument(help="The recipe whose world it belongs to.")],
    task: Annotated[str, typer.Argument(help="A task id.")],
    overrides: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE")] = None,
) -> None:
    """Print one reference trajectory."""
    from actfirst.config.load import resolve
    from actfirst.errors import TaskError
    from actfirst.records import Task
    from actfirst.references.store import ReferenceStore
    from actfirst.runtime.parts import open_stage

    store = ReferenceStore.open(file, open_stage(resolve(recipe, overrides or []).environment).world)
    reference = store.get(Task(task, "", ""))
    if reference is None:
        raise TaskError(f"{file} has no reference of task {task!r} among its {len(store)}")
    print(reference.initial.text)
    for step in reference.steps:
        print(f"\n> {step.action}\n{step.observation.text}")
