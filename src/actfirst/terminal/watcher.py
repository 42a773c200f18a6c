"""Who watches a run: a panel where somebody sees it redrawn, plain lines elsewhere."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from actfirst.training.watch import Watcher


def choose_watcher(console: Console, folder: Path | None = None) -> Watcher:
    """The watcher that fits the console. With the run's folder, it also draws the picture at the end."""
    from actfirst.terminal.panel import LivePanel
    from actfirst.terminal.plain import PlainLines

    # A pipe, a dumb terminal and an old encoding cannot show a panel that is redrawn in place.
    live = console.is_terminal and not console.is_dumb_terminal and console.encoding.startswith("utf")
    return LivePanel(console, folder) if live else PlainLines(console, folder)
