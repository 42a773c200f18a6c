"""The runs that are looked at, found under the paths that somebody names, and what each page asks of them.

Everything is asked by numbers and by names of KINDS: no request holds a path.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from actfirst.errors import ConfigError, RunFolderError
from actfirst.runs.line_index import LineIndex
from actfirst.runs.lock import writer
from actfirst.runs.run import Run
from actfirst.runs.run_folder import CONFIG, LOG, SUMMARY
from actfirst.view.prompts import Prompts
from actfirst.view.rows import EPISODE_KINDS, KINDS

ROWS = 2000
"""Rows in one answer."""
_LOG_BYTES = 4096


class ViewedRun:
    """One run folder and the indexes of its files."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder = folder
        self.name = name
        self.prompts = Prompts(folder)
        self.indexes = {key: LineIndex(folder / kind.file, kind.summarise) for key, kind in KINDS.items()}

    def describe(self) -> dict[str, object]:
        """What it is and how it goes, as far as that can be read."""
        try:
            config: Mapping[str, Any] = Run(self.folder).config
            fault = None
        except RunFolderError as error:
            config, fault = {}, str(error)
        return {
            "name": self.name,
            "state": self._state(),
            "method": _setting(config, "rollout", "method"),
            "environment": _setting(config, "environment", "name"),
            "student": _setting(config, "models", "student"),
            "teacher": _setting(config, "models", "teacher"),
            "seed": _setting(config, "run", "seed"),
            "updates": _setting(config, "run", "updates"),
            "fault": fault,
            "log": self._log(),
        }

    def _state(self) -> str:
        if writer(self.folder) is not None:
            return "training"
        return "finished" if (self.folder / SUMMARY).is_file() else "stopped"

    def _log(self) -> list[str]:
        try:
            with (self.folder / LOG).open("rb") as file:
                file.seek(max(0, file.seek(0, 2) - _LOG_BYTES))
                return file.read().decode(errors="replace").splitlines()[-12:]
        except OSError:
            return []


class Catalogue:
    """All runs, in the order in which they were found; a lab that goes on may add some."""

    def __init__(self, paths: Sequence[Path]) -> None:
        self._paths = [path.resolve() for path in paths]
        self._lock = Lock()
        self._runs: dict[Path, ViewedRun] = {}
        if not self._find():
            names = ", ".join(map(str, paths))
            raise ConfigError(f"no run in {names}: name run folders (they hold {CONFIG}) or folders of them")

    def runs(self) -> bytes:
        """What `describe` says of each."""
        return _dump([run.describe() for run in self._find()])

    def rows(self, run: int, kind: str, start: int, generation: int) -> bytes:
        """Rows from `start` on; from 0 where the file was cut since the generation that the asker knows.

        `behind` says how many bytes no row stands for yet: ask again.
        """
        index = self._index(run, kind)
        behind = index.advance()
        now, total, rows = index.rows(start, ROWS)
        if generation != now:
            start, (now, total, rows) = 0, index.rows(0, ROWS)
        head = {
            "generation": now,
            "from": start,
            "total": total,
            "behind": behind,
            "columns": KINDS[kind].columns,
        }
        return _dump(head)[:-1] + b',"rows":[' + b",".join(rows) + b"]}"

    def read_all(self, run: int, kind: str) -> None:
        """Index all of a file before anybody asks."""
        self._index(run, kind).advance(sys.maxsize)

    def line(self, run: int, kind: str, row: int) -> bytes:
        """A whole line."""
        index = self._index(run, kind)
        while row >= index.rows(0, 0)[1] and index.advance():
            pass  # an address that somebody kept: read as far as its line
        return index.line(row)

    def prompts(self, run: int, kind: str, row: int) -> bytes:
        """The prompts that were used in an episode."""
        line = self.line(run, kind, row)
        if kind not in EPISODE_KINDS:
            raise RunFolderError(f"{kind} are no episodes: they have no prompts")
        found = self._run(run).prompts.of(line, evaluated=kind == "evaluation")
        return _dump([prompt.to_json() for prompt in found])

    def __len__(self) -> int:
        return len(self._runs)

    def _run(self, run: int) -> ViewedRun:
        runs = list(self._runs.values())
        if not 0 <= run < len(runs):
            raise RunFolderError(f"there is no run {run}")
        return runs[run]

    def _index(self, run: int, kind: str) -> LineIndex:
        if kind not in KINDS:
            raise RunFolderError(f"no run has {kind}")
        return self._run(run).indexes[kind]

    def _find(self) -> list[ViewedRun]:
        with self._lock:
            for root in self._paths:
                for folder in _run_folders(root):
                    if folder not in self._runs:
                        name = root.name if folder == root else f"{root.name}/{folder.relative_to(root)}"
                        self._runs[folder] = ViewedRun(folder, name)
            return list(self._runs.values())


def _run_folders(path: Path, depth: int = 3) -> Iterator[Path]:
    """A run folder, or those below a folder; links are not followed below it."""
    if (path / CONFIG).is_file():
        yield path
    elif depth and path.is_dir():
        for below in sorted(path.iterdir()):
            if below.is_dir() and not below.is_symlink():
                yield from _run_folders(below, depth - 1)


def _setting(config: Mapping[str, Any], section: str, key: str) -> object:
    table = config.get(section)
    return table.get(key) if isinstance(table, dict) else None


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), default=str).encode()
