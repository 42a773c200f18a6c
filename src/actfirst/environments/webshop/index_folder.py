"""The folder of an index: what it was made of, and how one index takes the place of another.

An index is written to `<folder>.partial` and moved when it is done. Only a folder that is absent, empty or an index
of ours, known by its meta.json, is ever replaced: the name of a folder comes from a user, who may have mistyped it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from actfirst.environments.webshop.catalogue import CatalogueFiles
from actfirst.errors import EnvironmentFailure

_META = "meta.json"
_REPLACED = "replaced"
_UNFINISHED = 0
"""The format of an index that is not finished, which no program asks for."""

Source = dict[str, Any]
"""What an index was made of: `format`, `limit`, `files`."""


def made_of(folder: Path) -> Source | None:
    """The source of an index; None for a folder that is not an index, or absent."""
    try:
        meta = json.loads((folder / _META).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
        return None
    source = meta.get("source") if isinstance(meta, dict) else None
    return source if isinstance(source, dict) and {"format", "limit", "files"} <= source.keys() else None


def read_meta(folder: Path) -> dict[str, Any]:
    meta: dict[str, Any] = json.loads((folder / _META).read_text(encoding="utf-8"))
    return meta


def write_meta(folder: Path, source: Source, more: Mapping[str, Any]) -> None:
    (folder / _META).write_text(json.dumps({"source": source, **more}), encoding="utf-8")


def check_place(folder: Path, files: CatalogueFiles) -> None:
    """Refuse a folder that holds something else than an index, the files that are to be indexed above all."""
    for path in files.present:
        if any(place.is_relative_to(folder) for place in (path.resolve(), path.parent.resolve())):
            raise EnvironmentFailure(
                f"the search index cannot be written to {folder}, because the product files are in it ({path}); "
                "name another folder with environment.index"
            )
    _check_replaceable(folder)


@contextmanager
def replacing(folder: Path, source: Source) -> Iterator[Path]:
    """A new folder to write an index into; it takes the place of `folder` unless an error ends the writing."""
    partial = folder.with_name(f"{folder.name}.partial")
    _check_replaceable(partial)
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir()
    write_meta(partial, {**source, "format": _UNFINISHED}, {})
    yield partial
    _check_replaceable(folder)  # once more: building takes minutes
    if folder.exists():
        os.rename(folder, partial / _REPLACED)  # removed after the move: a kill leaves no half of an index
    os.replace(partial, folder)
    shutil.rmtree(folder / _REPLACED, ignore_errors=True)


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """One process at a time builds an index; the lock goes with the process that holds it."""
    with folder.with_name(f"{folder.name}.lock").open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _check_replaceable(place: Path) -> None:
    if not os.path.lexists(place):
        return
    if place.is_dir() and not place.is_symlink() and (made_of(place) or not any(place.iterdir())):
        return
    raise EnvironmentFailure(
        f"the search index is not written over {place}, which is not an index of actfirst; move it away, or name a "
        "folder that is empty or does not exist with environment.index"
    )
