"""One writer per run folder.

POSIX record locks: the kernel drops them when the process dies in whatever way, and forked workers do not
inherit them, so a killed run never blocks its own resumption.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import ClassVar, Self

from actfirst.errors import RunFolderError
from actfirst.runs.files import writing


class RunLock:
    """The lock of a run folder, held from `take` to `release`."""

    NAME: ClassVar[str] = ".lock"
    # Record locks do not exclude the process that holds them, so it has to remember.
    _held: ClassVar[set[Path]] = set()

    def __init__(self, path: Path, handle: int) -> None:
        """Called by `take` only."""
        self._path = path
        self._handle: int | None = handle

    @classmethod
    def take(cls, folder: Path) -> Self:
        """Lock a run folder; raises RunFolderError if somebody else is writing it."""
        path = folder.resolve() / cls.NAME
        if path in cls._held:
            raise RunFolderError(f"{folder} is already open for writing in this process; close it first")
        with writing(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with writing(path):
                _lock(handle, folder)
        except BaseException:
            os.close(handle)
            raise
        cls._held.add(path)
        return cls(path, handle)

    @property
    def held(self) -> bool:
        return self._handle is not None

    def release(self) -> None:
        """Let others in. Calling it twice is allowed."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
            self._held.discard(self._path)


def _lock(handle: int, folder: Path) -> None:
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        owner = os.read(handle, 20).decode(errors="replace").strip() or "unknown"
        raise RunFolderError(
            f"another process (id {owner}) is writing {folder}; wait for it, or use another folder with --run"
        ) from None
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
