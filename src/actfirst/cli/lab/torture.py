"""`actfirst torture`: kill a run, cut its power, fill its disk, lose its parts, and see whether it survives."""

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
    jobs: Annotated[int, typer.Option(min=1, help="How many runs at a time.")] = 1,
    short: Annotated[
        bool, typer.Option(help="Two updates on a few short responses, no evaluation: many more troubles.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option(help="Where the runs go; failed ones stay there. Default: a temporary folder."),
    ] = None,
    json_file: ResultFile = None,
) -> None:
    """Trouble a run in every way, resume it, and compare it with one that was left in peace.

    SIGKILL right before a file operation or at a random time, a power cut, SIGTERM, a full or slow disk, jumps of the
    clock, lost workers, engines, teachers and ranks of the learner where they are processes. Exit code 1 if a run did
    not survive: it did not end, is not as it was written, lost samples, or trained on one twice.

    \b
    actfirst torture pocket --short --minutes 5
    """
    import tempfile

    from actfirst.config.load import resolve
    from actfirst.lab.torture.torture import SHORT, Torturer
    from actfirst.lab.torture.troubles import parts_of
    from actfirst.runs.files import write_json

    place = (folder or Path(tempfile.mkdtemp(prefix="actfirst-torture-"))).absolute()
    place.mkdir(parents=True, exist_ok=True)
    settings = [*(SHORT if short else ()), *(overrides or [])]
    config = resolve(recipe, settings)
    torturer = Torturer(
        _command, (recipe, *settings), place, exact=not config.rollout.overlap, parts=parts_of(config)
    )

    def tell(result: Tortured) -> None:
        if result.runs % 10 == 0:
            if json_file is not None:
                write_json(json_file, _told(recipe, overrides, result))
            print_note(
                f"{result.kills} kills in {result.seconds:.0f} s, {len(result.failures)} runs not survived"
            )

    result = torturer.torture(60.0 * minutes, seed, jobs, tell)
    rows = [
        {"trouble": kind, **{key: str(value) for key, value in asdict(tally).items()}}
        for kind, tally in result.kinds.items()
    ]
    if rows:
        print_records(rows)
    for failure in result.failures:
        say(failure)
    print_note(
        f"{result.runs} runs, {result.kills} kills, {len(result.failures)} runs not survived, {result.seconds:.0f} s; "
        f"a quiet run makes {result.operations} file operations"
    )
    write_result(json_file, _told(recipe, overrides, result))
    if result.failures:
        print_note(f"the runs that did not survive are in {place}")
        raise typer.Exit(1)


def _told(recipe: str, overrides: list[str] | None, result: Tortured) -> dict[str, object]:
    return {"recipe": recipe, "overrides": overrides or [], **asdict(result)}


def _command(arguments: Sequence[str]) -> None:
    from actfirst.cli.main import main

    main(arguments)
