"""Checkpoint folders that are complete or not there: a manifest of sizes and hashes, written last.

A manifest is closed: a file that it does not list makes the folder corrupt, so nobody reads what the run did not write.
It knows names and files only, not what is in them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

from actfirst.errors import CheckpointError
from actfirst.reading import read_object
from actfirst.runs.files import sync_folder

MANIFEST = "manifest.json"
MODEL, AVERAGED, EXPORTED = "model", "average", "bfloat16"
"""The parts of a checkpoint that are Hugging Face folders: the weights as trained, and their average if it is kept."""
_FORMAT = 1
_STEP = re.compile(r"step-(\d{6,})")


def step_name(version: int) -> str:
    return f"step-{version:06d}"


def step_of(path: Path) -> int | None:
    """The update after which a checkpoint was written, by its name; None if it is no checkpoint's."""
    name = _STEP.fullmatch(path.name)
    return int(name[1]) if name is not None and path.is_dir() else None


def steps(folder: Path) -> list[Path]:
    """The checkpoints in a folder by their names, newest first. Leftovers of killed writes have other names."""
    if not folder.is_dir():
        return []
    found = [(step, path) for path in folder.iterdir() if (step := step_of(path)) is not None]
    return [path for _, path in sorted(found, reverse=True)]


def complete_steps(folder: Path) -> list[Path]:
    """Those that are complete, by names and sizes."""
    return [path for path in steps(folder) if is_complete(path)]


def latest(folder: Path) -> Path | None:
    """The newest complete checkpoint."""
    return next(filter(is_complete, steps(folder)), None)


def seal(folder: Path) -> None:
    """Bring every file of `folder` to the disk, then write the manifest that makes the folder complete."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    entries = {path.relative_to(folder).as_posix(): _entry(path, sync=True) for path in files}
    manifest = folder / MANIFEST
    manifest.write_text(json.dumps({"format": _FORMAT, "files": entries}, indent=1) + "\n", encoding="utf-8")
    _entry(manifest, sync=True)
    for inner in (*(path for path in folder.rglob("*") if path.is_dir()), folder):
        sync_folder(inner)


def is_complete(folder: Path) -> bool:
    """Whether the files of the manifest, and no others, are there in full size."""
    try:
        check_names(folder)
        return True
    except (CheckpointError, OSError):
        return False


def verify(folder: Path, part: str = "") -> None:
    """Compare with the manifest; raise CheckpointError that names the first file that is not as written.

    Names and sizes are compared always, contents of the files below `part` only: `model` for who reads only that.
    """
    for name, entry in check_names(folder).items():
        if name.startswith(part) and _entry(folder / name, sync=False) != entry:
            raise _broken(folder, name, "does not have the content that was written (its sha256 differs)")


def verify_model(model: Path) -> Path:
    """A model's folder, compared with its manifest if it is the one of a checkpoint of ours."""
    place = model.resolve()
    if place.name in (MODEL, AVERAGED, EXPORTED) and step_of(place.parent) is not None:
        verify(place.parent, f"{place.name}/")
    return model


def evaluated_model(step: Path) -> Path:
    """The model of a checkpoint that evaluations take: the averaged one, where there is one."""
    return step / (AVERAGED if (step / AVERAGED).is_dir() else MODEL)


def check_names(folder: Path) -> dict[str, dict[str, Any]]:
    """The entries of the manifest, once every file is known to be there in full size, and no other: CheckpointError
    names the one that is not. Cheap: reads only the manifest."""
    entries = _read(folder)
    present = {
        path.relative_to(folder).as_posix(): path
        for path in folder.rglob("*")
        if path.is_symlink() or not path.is_dir()
    }
    present.pop(MANIFEST, None)
    for name, entry in entries.items():
        path = present.pop(name, None)
        if path is None:
            raise _broken(folder, name, "is missing")
        if path.is_symlink() or not path.is_file():
            raise _broken(folder, name, "is not a plain file")
        if (found := path.stat().st_size) != entry["bytes"]:
            raise _broken(folder, name, f"has {found} bytes instead of {entry['bytes']}")
    if present:
        raise _broken(folder, min(present), f"is not listed in {MANIFEST}, so the run did not write it")
    return entries


def _entry(path: Path, *, sync: bool) -> dict[str, Any]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        if sync:
            os.fsync(file.fileno())
        return {"bytes": file.tell(), "sha256": digest}


def _read(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / MANIFEST
    if not path.is_file():
        raise _broken(folder, MANIFEST, "is missing")
    try:
        manifest = read_object(path)
        entries: dict[str, dict[str, Any]] = manifest["files"]
        readable = manifest["format"] == _FORMAT and all(
            {"bytes", "sha256"} == set(e) for e in entries.values()
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        readable = False
    if not readable:
        raise _broken(folder, MANIFEST, "cannot be read")
    return entries


def _broken(folder: Path, name: str, fault: str) -> CheckpointError:
    return CheckpointError(
        f"checkpoint {folder} is corrupt: {name} {fault}. "
        "Delete that folder to fall back to the checkpoint before it"
    )
