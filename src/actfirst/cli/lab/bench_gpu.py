"""`actfirst bench checkpoint | budget`: what a run on GPUs would lose its time with, as far as it shows without one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_records, write_result
from actfirst.cli.options import Overrides, Repeats, ResultFile
from actfirst.cli.progress import progress


def checkpoint(
    overrides: Overrides = None,
    sizes: Annotated[int, typer.Option(min=1, max=3, help="How many model sizes, from the smallest.")] = 2,
    repeats: Repeats = 5,
    json_file: ResultFile = None,
) -> None:
    """Time how long the loop waits for a checkpoint: written at once, and beside the loop.

    \b
    actfirst bench checkpoint
    actfirst bench checkpoint --sizes 3 --repeats 3
    """
    from tempfile import TemporaryDirectory

    from actfirst.config.load import resolve
    from actfirst.lab.speed.checkpoints import SIZES, measure, rows, to_json
    from actfirst.lab.stored import header

    config = resolve("pocket", overrides or [])
    with TemporaryDirectory() as scratch, progress("sizes") as told:
        found = measure(config, SIZES[:sizes], repeats, Path(scratch), told)
    print_records(rows(found))
    write_result(json_file, {**header("bench-checkpoint"), **to_json(found)})
