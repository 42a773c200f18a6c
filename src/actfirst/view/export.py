"""The viewer's pages with their data as files that open from disk, without a server.

A page from disk may load scripts but not fetch: each answer of the server becomes a small script that hands its text
over. Of each file the newest lines are kept whole; tables and curves hold all of them.
"""

from __future__ import annotations

import json
from pathlib import Path

from actfirst.errors import ActfirstError, ConfigError, RunFolderError
from actfirst.reading import parse_object
from actfirst.runs import files
from actfirst.view.catalogue import ROWS, Catalogue
from actfirst.view.rows import EPISODE_KINDS, KINDS
from actfirst.view.server import static_files

WHOLE = ("episodes", "evaluation", "responses")
"""Kinds whose lines are shown whole."""


def export(catalogue: Catalogue, folder: Path, newest: int, *, prompts: bool = False) -> None:
    """Write everything into a new folder, with the `newest` lines of each file in full, if asked with `prompts`."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"--export {folder} is not empty; name a new folder")
    for name, content in static_files().items():
        _write(folder / name, content.decode().replace('content="server"', 'content="files"'))
    _put(folder, "runs", catalogue.runs())
    for run in range(len(catalogue)):
        for kind in KINDS:
            total = _rows(catalogue, folder, run, kind)
            if kind in WHOLE:
                for row in range(max(0, total - newest), total):
                    try:
                        _put(folder, f"line-{run}-{kind}-{row}", catalogue.line(run, kind, row))
                    except RunFolderError:
                        continue  # too long to show
                    if kind in EPISODE_KINDS and prompts:
                        _put_prompts(catalogue, folder, run, kind, row)


def _rows(catalogue: Catalogue, folder: Path, run: int, kind: str) -> int:
    """All rows, as the answers that the page will ask for one after the other."""
    catalogue.read_all(run, kind)
    start, total = 0, 1
    while start < total:
        answer = parse_object(catalogue.rows(run, kind, start, 1))
        total = answer["total"]
        _put(folder, f"rows-{run}-{kind}-{start}", json.dumps({**answer, "behind": 0}).encode())
        start += ROWS
    return int(total)


def _put_prompts(catalogue: Catalogue, folder: Path, run: int, kind: str, row: int) -> None:
    try:
        _put(folder, f"prompts-{run}-{kind}-{row}", catalogue.prompts(run, kind, row))
    except ActfirstError:
        return  # the page says that they are not there


def _put(folder: Path, key: str, text: bytes) -> None:
    value = json.dumps(text.decode(errors="replace"))
    _write(folder / "data" / f"{key}.js", f"actfirstPut({json.dumps(key)}, {value});\n")


def _write(path: Path, text: str) -> None:
    with files.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
