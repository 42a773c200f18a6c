"""`actfirst compare`: methods under one recipe with several training seeds, one table and one picture."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import check_result_file, print_note, write_result

if TYPE_CHECKING:
    from actfirst.lab.compare_runs import PlannedRun, Told


def compare(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="METHOD|KEY=VALUE",
            help="Methods (rows of `actfirst methods`); the first is the one to compare with. METHOD:KEY=VALUE "
            "gives a method its own settings, KEY=VALUE alone all of them.",
        ),
    ],
    recipe: Annotated[str, typer.Option(help="A recipe's name or a .toml file.")] = "pocket",
    seeds: Annotated[int, typer.Option(min=1, help="Training seeds per method.")] = 3,
    out: Annotated[
        Path | None, typer.Option("--out", help="Where the runs go. Default: runs/compare-RECIPE.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the result to this file.", callback=check_result_file),
    ] = None,
) -> None:
    """Run methods side by side and compare success, time, tokens and reference alignment.

    \b
    actfirst compare vanilla actfirst
    actfirst compare vanilla actfirst actfirst:rollout.responses=all --seeds 5
    actfirst compare vanilla actfirst run.updates=20 --out runs/short

    Interrupt it at any time: the same command goes on where it was, and repeats no finished run.
    """
    from rich.console import Console

    from actfirst.config.recipe_files import short_name
    from actfirst.lab.compare_picture import draw_comparison
    from actfirst.lab.compare_runs import collect, make_runs, plan_runs
    from actfirst.lab.compare_table import markdown, print_comparison
    from actfirst.runs.files import write_atomically, write_json

    methods, overrides = split_arguments(arguments)
    folder = out or Path("runs") / f"compare-{short_name(recipe)}"
    planned = plan_runs(methods, recipe, overrides, seeds, folder)
    try:
        with _progress(len(planned)) as progress:
            make_runs(planned, recipe, progress)
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


@contextmanager
def _progress(runs: int) -> Iterator[Told]:
    """On a terminal one line that changes, elsewhere the lines that say how a run stands, under its name."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True, highlight=False)
    results = ("evaluated the", "finished before")
    if not console.is_terminal:

        def say(run: PlannedRun, place: int, line: str) -> None:
            if line.startswith(("update ", *results)):
                print_note(f"[{place}/{runs} {run.name}] {line}")

        yield say
        return
    with console.status("") as status:

        def show(run: PlannedRun, place: int, line: str) -> None:
            status.update(f"[bold]run {place} of {runs}[/] {escape(run.name)}  [dim]{escape(line)}[/]")
            if line.startswith(results):
                console.print(f"{run.name}: {line}", markup=False)

        yield show
