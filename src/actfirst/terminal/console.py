"""The console of all commands: rich's, on which text of models and files cannot act (see `visible.py`)."""

from __future__ import annotations

from collections.abc import Iterable

from rich import console
from rich.segment import Segment

from actfirst.terminal.visible import visible


class Console(console.Console):
    """A console on which only rich itself moves the cursor and chooses colours."""

    def render(
        self, renderable: console.RenderableType, options: console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)
