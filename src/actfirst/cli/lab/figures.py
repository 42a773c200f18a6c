"""`actfirst figures`: the figures of several reports put together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note


def figures(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="figures.json of reports, or files made by --out.")
    ],
    out: Annotated[Path | None, typer.Option(help="Write all of them as one file.")] = None,
) -> None:
    """Pair runs that were made in several places: their success by seed, and differences with 95 % intervals.

    \b
    actfirst figures runs/lab-alfworld-mini/report/figures.json
    actfirst figures docs/results/alfworld-mini.json elsewhere/figures.json --out all.json

    Seconds of different machines cannot be compared. A speedup is that of a run and vanilla's of the same seed, where
    both were made in one place.
    """
    from actfirst.lab.report.join import join, markdown
    from actfirst.runs.files import write_json, writing

    joined = join(files)
    typer.echo(markdown(joined))
    if out is not None:
        with writing(out):
            write_json(out, joined.to_json())
        print_note(f"written to {out}")
