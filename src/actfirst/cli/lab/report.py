"""`actfirst report`: the paper's tables and figures from run folders and stored results."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note
from actfirst.cli.verify import say_faults


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Run folders, result files, or folders that hold them."),
    ],
    out: Annotated[Path | None, typer.Option(help="Default: report/ in the first folder named.")] = None,
    title: Annotated[str, typer.Option(help="The heading of the page.")] = "actfirst report",
) -> None:
    """Write one self-contained HTML page, with every table as CSV and every figure as PNG and SVG beside it.

    \b
    actfirst report runs/lab-pocket
    actfirst report runs/vanilla runs/actfirst runs/bench/rollout-pocket.json --out runs/report

    A number links to the runs that it came from. Runs that are not finished are left out and named.
    """
    from actfirst.lab.report.page import write_report

    say_faults(*paths)
    first = paths[0] if paths[0].is_dir() else paths[0].parent
    page = write_report(paths, out or first / "report", title)
    print_note(f"report: {page}")
