"""One writer per run folder, or per file.

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
    """The lock of a run folder or of a file, held until `release`."""

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
        return cls._take(folder.resolve() / cls.NAME, folder, "use another folder with --run")

    @classmethod
    def take_file(cls, file: Path) -> Self:
        """Lock a file, by means of another one beside it: closing a file would let go of its own lock."""
        place = file.resolve()
        return cls._take(place.with_name(f".{place.name}{cls.NAME}"), file, "write another file")

    @classmethod
    def _take(cls, path: Path, what: Path, otherwise: str) -> Self:
        if path in cls._held:
            raise RunFolderError(f"{what} is already open for writing in this process; close it first")
        with writing(path):
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with writing(path):
                _lock(handle, what, otherwise)
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
            os.ftruncate(self._handle, 0)
            os.close(self._handle)
            self._handle = None
            self._held.discard(self._path)


def writer(folder: Path) -> int | None:
    """The id of the process on this machine that is writing a run folder, None if there is none.

    It opens no lock: a process that closes a file gives up its own lock on it. A process that is younger than the lock
    has only the same id.
    """
    import psutil

    path = folder / RunLock.NAME
    try:
        process = psutil.Process(int(path.read_text(encoding="ascii")))
        alive = process.create_time() <= path.stat().st_mtime + 1 and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, ValueError, psutil.Error):
        return None
    return int(process.pid) if alive else None


def _lock(handle: int, what: Path, otherwise: str) -> None:
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (BlockingIOError, PermissionError):
        owner = os.read(handle, 20).decode(errors="replace").strip() or "unknown"
        raise RunFolderError(
            f"another process (id {owner}) is writing {what}; wait for it, or {otherwise}"
        ) from None
    os.ftruncate(handle, 0)
    os.write(handle, f"{os.getpid()}\n".encode())
