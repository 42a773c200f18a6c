"""Arguments and options that several commands share, worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import check_result_file

Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings that replace the recipe's.")
]
Recipe = Annotated[str, typer.Option("--recipe", help="A recipe's name or a .toml file.")]
Model = Annotated[
    str | None, typer.Option(help="A checkpoint folder or a run folder. Default: the recipe's student.")
]
Runs = Annotated[
    int, typer.Option("--runs", min=1, help="Runs of each method, with the training seeds from run.seed on.")
]
Seeds = Annotated[str | None, typer.Option(help="Comma-separated evaluation seeds, as in 42,43,44.")]
Repeats = Annotated[int, typer.Option(min=1, help="Timed repeats of each point.")]
Threads = Annotated[int, typer.Option(min=1, help="Threads of torch.")]
Python = Annotated[
    str, typer.Option(help="An interpreter with the other engine and actfirst. Default: this one.")
]
ResultFile = Annotated[
    Path | None, typer.Option("--json", help="Write the result to this file.", callback=check_result_file)
]
Out = Annotated[Path | None, typer.Option("--out", help="Where the results go. Default: a place in runs/.")]
