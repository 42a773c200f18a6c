"""`actfirst envs`: which environments there are, a new one, and whether two engines of one play alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import check_result_file, print_note, print_table, write_result
from actfirst.cli.progress import progress
from actfirst.terminal.visible import say

app = typer.Typer(
    help="List environments, begin a new one, and compare the engines of one.", no_args_is_help=True
)


@app.command("list")
def list_environments() -> None:
    """List the environments that a recipe may name, third-party ones included."""
    from actfirst.environments.registry import available, installed_environments

    third_party = {name: point.value for name, point in installed_environments().items()}
    rows = [(name, third_party.get(name, "part of actfirst")) for name in available()]
    print_table(("environment.name", "where it comes from"), rows)


@app.command("new")
def new(
    name: Annotated[str, typer.Argument(help="The environment's name: small letters, digits and _.")],
    folder: Annotated[
        Path | None, typer.Option("--into", help="Where the package goes. Default: a folder of that name here.")
    ] = None,
) -> None:
    """Write a package with a small world, its rules, prompts, tests and a README: a place to begin.

    \b
    actfirst envs new corridor
    pip install -e corridor && pytest corridor
    actfirst train corridor/recipe.toml --dry-run
    """
    from actfirst.environments.general.package import write_package

    target = folder or Path(name)
    write_package(name, target)
    print_note(f"written to {target}; its README and docs/own-world.md say how to go on")


@app.command("templates")
def templates(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or a .toml file.")],
    folder: Annotated[Path, typer.Argument(help="Where the templates go; it must not exist yet.")],
) -> None:
    """Copy the prompt templates of a recipe's environment, to change them and name them in environment.templates.

    \b
    actfirst envs templates pocket prompts
    actfirst train pocket environment.templates=prompts
    """
    import shutil
    from importlib.resources import as_file

    from actfirst.config.load import resolve
    from actfirst.environments.registry import kind_of
    from actfirst.errors import ConfigError

    if folder.exists():
        raise ConfigError(f"{folder} exists already; choose another folder")
    with as_file(kind_of(resolve(recipe).environment).prompts.folder) as source:
        shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    print_note(f"written to {folder}; change them and set environment.templates={folder}")


@app.command("verify")
def verify(
    environment: Annotated[str, typer.Argument(help="An environment that two engines can play.")],
    folder: Annotated[Path | None, typer.Argument(help="A folder of games; all below it count.")] = None,
    recipe: Annotated[
        str | None, typer.Option(help="Instead of a folder: the games of this recipe, such as pocket.")
    ] = None,
    split: Annotated[str, typer.Option(help="Only games below a folder of this name, as in train.")] = "",
    games: Annotated[int, typer.Option(min=0, help="That many, at even distances; 0 for all.")] = 0,
    steps: Annotated[int, typer.Option(min=0, help="Steps of the random walk of each game.")] = 40,
    seed: Annotated[int, typer.Option(help="Seed of the random walks.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Processes of the real engine.")] = 1,
    python: Annotated[
        str, typer.Option(help="An interpreter that has the real engine and actfirst; default: this one.")
    ] = "",
    log: Annotated[
        Path | None, typer.Option(help="One line per game; a stopped verification goes on from it.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the report to this file.", callback=check_result_file),
    ] = None,
) -> None:
    """Play our engine and the real one side by side: walkthroughs, random walks, invalid commands.

    Every difference in text, admissible commands and their order, success and state is reported; exit code 1 if there
    is one. A log also says which engines it is about (the source of ours, the versions of the real one) and is not
    continued with others. docs/environments.md has examples.
    """
    from actfirst.config.load import resolve
    from actfirst.environments.comparing import Told, Verification
    from actfirst.environments.registry import built_in_kinds, find_kind
    from actfirst.errors import ConfigError

    comparing = find_kind(environment).comparing
    if comparing is None:
        able = ", ".join(name for name, kind in built_in_kinds().items() if kind.comparing)
        raise ConfigError(
            f"{environment} has one engine, so there is nothing to compare it with; choose {able}"
        )
    asked = Verification(
        folder=folder,
        recipe=recipe or "",
        section=resolve(recipe).environment if recipe else None,
        split=split,
        games=games,
        steps=steps,
        seed=seed,
        workers=workers,
        python=python,
        log=log,
    )
    with progress("games") as told:
        verdict = comparing.verify(asked, Told(print_note, print, lambda done, of: told(done, of, "")))
    say(verdict.summary)
    write_result(json_file, verdict.details)
    if not verdict.equal:
        raise typer.Exit(1)
