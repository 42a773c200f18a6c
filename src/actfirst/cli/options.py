"""Arguments and options that several commands share, worded once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import check_result_file

Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings that replace the recipe's.")
]
Model = Annotated[
    str | None, typer.Option(help="A checkpoint folder or a run folder. Default: the recipe's student.")
]
ResultFile = Annotated[
    Path | None, typer.Option("--json", help="Write the result to this file.", callback=check_result_file)
]
Threads = Annotated[int, typer.Option(min=1, help="Threads of torch.")]
