"""How commands print: results on stdout, everything else on stderr."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from actfirst.terminal.visible import say


def print_error(message: str) -> None:
    """One message, "error: ..." in red where the terminal has colours."""
    from rich.text import Text

    from actfirst.terminal.console import Console

    # `Text`, because a message may hold square brackets, which are markup to rich
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    console.print(Text.assemble(("error:", "bold red"), " ", message))


def print_note(message: str) -> None:
    """A message that is not a result."""
    say(message, to=sys.stderr)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A plain table: aligned columns, no frame, so that it reads well in a pipe too."""
    widths = [max(len(cell) for cell in cells) for cells in zip(columns, *rows, strict=True)]
    for row in (columns, *rows):
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_records(records: Iterable[Mapping[str, str]]) -> None:
    """A table of records with the same keys, which are the heads of its columns."""
    rows = [list(record.items()) for record in records]
    print_table([name for name, _ in rows[0]], [[cell for _, cell in row] for row in rows])


def read_counts(text: str, option: str) -> tuple[int, ...]:
    """The value of an option that takes several counts."""
    from actfirst.errors import ConfigError

    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        counts = ()
    if not counts or min(counts) < 1:
        raise ConfigError(f"{option} {text}: write whole numbers above 0 with commas between them, as in 1,2,4")
    return counts


def chosen(names: Sequence[str] | None, known: Collection[str], what: str) -> list[str]:
    """The names that were given, or all that are known; another one is refused."""
    from actfirst.errors import ConfigError

    if unknown := [name for name in names or () if name not in known]:
        raise ConfigError(f"there is no {what} {unknown[0]!r} here; choose from {', '.join(known)}")
    return list(names or known)


def check_result_file(path: Path | None) -> Path | None:
    """Called by `--json` before the work starts, so that the result of hours of work can be written."""
    if path is not None and (path.is_dir() or not path.parent.is_dir()):
        from actfirst.errors import ConfigError

        fault = "is a folder" if path.is_dir() else f"cannot be written: there is no folder {path.parent}"
        raise ConfigError(f"--json {path} {fault}; name a file in a folder that exists")
    return path


def write_result(path: Path | None, result: Mapping[str, object]) -> None:
    """Write the result of a command as JSON to the file of `--json`, if one was given."""
    if path is None:
        return
    from actfirst.runs.files import write_json

    write_json(path, result)
    print_note(f"result written to {path}")
