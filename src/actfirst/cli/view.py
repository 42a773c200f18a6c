"""`actfirst view`: look at runs in a browser."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note
from actfirst.terminal.visible import say


def view(
    paths: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Run folders, or folders that hold them.")
    ],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    export: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Write the pages as files that open from disk, and end."),
    ] = None,
    newest: Annotated[
        int, typer.Option(min=0, help="With --export: how many episodes of a run can be opened, newest first.")
    ] = 1000,
    prompts: Annotated[
        bool,
        typer.Option(
            "--prompts", help="With --export: also the exact prompts of these episodes (much larger)."
        ),
    ] = False,
    open_browser: Annotated[bool, typer.Option("--open", help="Open the browser.")] = False,
) -> None:
    """Look at runs in a browser: curves, every episode, every token; also while they train.

    \b
    actfirst view runs/pocket-1
    actfirst view runs/vanilla runs/actfirst
    actfirst view runs/lab-pocket --export pages

    It answers on this machine only, to the address that it prints. Ctrl-C ends it.
    """
    from actfirst.view.catalogue import Catalogue

    catalogue = Catalogue(paths)
    if export is not None:
        from actfirst.view.export import export as write

        write(catalogue, export, newest, prompts=prompts)
        print_note(f"open {export / 'index.html'}")
        return
    from actfirst.view.server import ViewServer

    with ViewServer(catalogue, port) as server:
        say(server.address)
        sys.stdout.flush()  # whoever started it in the background waits for the address
        print_note("open this address in a browser; Ctrl-C ends")
        if open_browser:
            import webbrowser

            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return
