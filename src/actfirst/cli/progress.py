"""How a command shows its progress: `with progress("tasks") as told: told(done, of, "more to say")`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from actfirst.cli.console import print_note


@contextmanager
def progress(what: str) -> Iterator[Callable[[int, int, str], None]]:
    """On a terminal a bar; elsewhere about ten lines, at least one a minute. Both go to stderr."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from actfirst.terminal.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        last = time.monotonic()

        def say(done: int, of: int, more: str) -> None:
            nonlocal last
            if done == of or done % max(1, of // 10) == 0 or time.monotonic() - last > 60:
                last = time.monotonic()
                print_note(f"{done} of {of} {what}" + (f", {more}" if more else ""))

        yield say
        return
    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, of, more: bar.update(task, completed=done, total=of, description=more)
