"""`actfirst torture`: kill a run, fill its disk, end it by signals, again and again, and see whether it survives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import print_note, print_records, write_result
from actfirst.cli.options import Overrides, ResultFile
from actfirst.terminal.visible import say

if TYPE_CHECKING:
    from actfirst.lab.torture.torture import Tortured


def torture(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or a .toml file: a small one, it runs often.")],
    overrides: Overrides = None,
    minutes: Annotated[
        float, typer.Option(min=0.0, help="How long; what is under way then is finished.")
    ] = 10.0,
    seed: Annotated[int, typer.Option(help="Which troubles, in which order.")] = 0,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the runs go; failed ones stay there. Default: a temporary folder."),
    ] = None,
    json_file: ResultFile = None,
) -> None:
    """Trouble a run in every way, resume it, and compare it with one that was left in peace.

    SIGKILL right before a file operation or at a random time, SIGTERM, a full disk. Exit code 1 if a run did not
    survive: it did not end, is not as it was written, lost samples, or trained on one twice.

    \b
    actfirst torture pocket run.updates=3 evaluation.at_start=false evaluation.at_end=false --minutes 5
    """
    import tempfile

    from actfirst.config.load import resolve
    from actfirst.lab.torture.torture import Torturer

    config = resolve(recipe, overrides or [])
    place = folder or Path(tempfile.mkdtemp(prefix="actfirst-torture-"))
    place.mkdir(parents=True, exist_ok=True)
    torturer = Torturer(_command, [recipe, *(overrides or [])], place, exact=not config.rollout.overlap)
    result = torturer.torture(60.0 * minutes, seed, _tell)
    rows = [
        {"trouble": kind, **{key: str(value) for key, value in asdict(tally).items()}}
        for kind, tally in result.kinds.items()
    ]
    if rows:
        print_records(rows)
    for failure in result.failures:
        say(failure)
    write_result(json_file, {"recipe": recipe, "overrides": overrides or [], **asdict(result)})
    if result.failures:
        print_note(f"the runs that did not survive are in {place}")
        raise typer.Exit(1)


def _tell(result: Tortured) -> None:
    tried = sum(tally.tried for tally in result.kinds.values())
    if tried % 10 == 0:
        print_note(f"{tried} troubles in {result.seconds:.0f} s, {len(result.failures)} not survived")


def _command(arguments: Sequence[str]) -> None:
    from actfirst.cli.main import main

    main(arguments)
