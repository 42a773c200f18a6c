"""`actfirst compare`: methods under one recipe with several training seeds, one table and one picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note, write_result
from actfirst.cli.options import Out, Recipe, ResultFile, Runs
from actfirst.cli.progress import progress


def compare(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="METHOD|KEY=VALUE",
            help="Methods (rows of `actfirst methods`); the first is the one to compare with. METHOD:KEY=VALUE "
            "gives a method its own settings, KEY=VALUE alone all of them.",
        ),
    ],
    recipe: Recipe = "pocket",
    runs: Runs = 3,
    out: Out = None,
    json_file: ResultFile = None,
) -> None:
    """Run methods side by side and compare success, time, tokens and reference alignment.

    \b
    actfirst compare vanilla actfirst
    actfirst compare vanilla actfirst actfirst:rollout.responses=all --runs 5
    actfirst compare vanilla actfirst run.updates=20 --out runs/short

    Interrupt it at any time: the same command goes on where it was, and repeats no finished run. Runs, table and
    picture go to runs/compare-RECIPE.
    """
    from actfirst.config.recipe_files import short_name
    from actfirst.lab.compare_picture import draw_comparison
    from actfirst.lab.compare_runs import collect, make_runs, plan_runs
    from actfirst.lab.compare_table import markdown, print_comparison
    from actfirst.runs.files import write_atomically, write_json
    from actfirst.terminal.console import Console

    methods, overrides = split_arguments(arguments)
    folder = out or Path("runs") / f"compare-{short_name(recipe)}"
    planned = plan_runs(methods, recipe, overrides, runs, folder)
    try:
        with progress("runs") as told:
            make_runs(
                planned,
                recipe,
                lambda run, place, line: told(place - 1, len(planned), f"now {run.name}: {line}"),
            )
    except KeyboardInterrupt:
        print_note("stopped; the same command goes on from here")
        raise typer.Exit(130) from None
    comparison = collect(planned)
    result = {"recipe": recipe, "overrides": overrides, **comparison.to_json()}
    write_atomically(folder / "compare.md", markdown(comparison, f"{' / '.join(methods)} under {recipe}"))
    write_json(folder / "compare.json", result)
    picture = draw_comparison(comparison, folder / "compare.png")
    print_comparison(Console(), comparison)
    print_note(f"table: {folder / 'compare.md'}   picture: {picture}   runs: {folder}")
    write_result(json_file, result)


def split_arguments(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Methods and settings; a setting has "=" and no ":" before it."""
    settings = [text for text in arguments if "=" in text and ":" not in text.partition("=")[0]]
    return [text for text in arguments if text not in settings], settings
