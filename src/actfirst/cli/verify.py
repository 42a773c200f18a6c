"""`actfirst verify`: is a run, a checkpoint or a store as it was written? And what other commands say of that."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note, write_result
from actfirst.cli.options import ResultFile
from actfirst.terminal.visible import say


def verify(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="RUN|STORE|CHECKPOINT...", help="Run folders, reference files, checkpoints."),
    ],
    recipe: Annotated[
        str | None, typer.Option(help="Whose environment replays references. Default: they are not replayed.")
    ] = None,
    json_file: ResultFile = None,
) -> None:
    """Read everything and compare: exit code 1 if anything is not as it was written.

    Checkpoints against their manifests, lines against their checksums, the ledger of every update against the samples
    that were trained on, references against their store and, with --recipe, against the environment.

    \b
    actfirst verify runs/pocket-1
    actfirst verify runs/pocket-1/checkpoints/step-000040
    actfirst verify references/pocket.jsonl --recipe pocket
    """
    from actfirst.config.load import resolve
    from actfirst.training.verify import verify as verify_path

    config = resolve(recipe) if recipe is not None else None
    results = {path: verify_path(path, config) for path in paths}
    for path, result in results.items():
        counts = ", ".join(f"{count} {name}" for name, count in result.checked.items())
        say(f"{path}: {result.what}, {counts or 'nothing could be read'}")
        for finding in result.findings:
            say(f"  {finding}")
    wrong = sum(len(result.findings) for result in results.values())
    say("everything is as it was written" if not wrong else f"{wrong} things are wrong")
    things = [{"path": str(path), **asdict(result)} for path, result in results.items()]
    write_result(json_file, {"whole": not wrong, "things": things})
    if wrong:
        raise typer.Exit(1)


def say_faults(*paths: Path | str) -> None:
    """The fast form: what is wrong with those of `paths` that are run folders, one note each."""
    from actfirst.runs.run_folder import CONFIG
    from actfirst.runs.verify import look

    for path in map(Path, paths):
        if (path.expanduser() / CONFIG).is_file():
            for finding in look(path.expanduser()):
                print_note(f"note: {path}: {finding}")
