"""`actfirst bench startup`: what a command costs before it does anything (docs/speed.md)."""

from __future__ import annotations

from typing import Annotated

import typer

from actfirst.cli.console import print_records, write_result
from actfirst.cli.options import Repeats, ResultFile
from actfirst.cli.progress import progress


def startup(
    commands: Annotated[list[str] | None, typer.Argument(help="train, eval, play. Default: all.")] = None,
    repeats: Repeats = 5,
    json_file: ResultFile = None,
) -> None:
    """Processor time and modules of `train`, `eval` and `play` up to their first episode.

    \b
    actfirst bench startup
    actfirst bench startup train --repeats 10
    """
    from actfirst.errors import ConfigError
    from actfirst.lab.speed.startup import COMMANDS, measure, to_json
    from actfirst.lab.stored import header

    if unknown := [name for name in commands or () if name not in COMMANDS]:
        raise ConfigError(f"there is no command {unknown[0]!r} here; choose from {', '.join(COMMANDS)}")
    with progress("rounds") as told:
        starts = measure(commands or list(COMMANDS), repeats, told)
    print_records(
        {
            "command": f"actfirst {start.command}",
            "processor time to the first episode (s)": start.spread.text(),
            "modules": f"{start.modules:,}",
        }
        for start in starts
    )
    write_result(json_file, {**header("bench-startup"), **to_json(starts)})
