"""One writer per run folder, or per file.

The folder or the file itself is locked (flock), so deleting a lock file lets nobody in; a lock file beside it says who
writes, and is the lock where a file system has none for folders. The kernel drops locks when the process dies in
whatever way; forked workers let go of them, so a killed run never blocks its own resumption.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import ClassVar, Self

from actfirst.errors import RunFolderError
from actfirst.runs.files import writing

_CREATED = os.O_RDWR | os.O_CREAT


class RunLock:
    """A lock that is held until `release`."""

    NAME: ClassVar[str] = ".lock"
    _held: ClassVar[set[RunLock]] = set()

    def __init__(self, marker: Path, handles: list[int]) -> None:
        """Called by the functions that take locks."""
        self._marker = marker
        self._handles = handles
        self._held.add(self)

    @classmethod
    def take(cls, folder: Path) -> Self:
        """Lock a run folder; raises RunFolderError if somebody else is writing it."""
        place = folder.resolve()
        return cls._take(place / cls.NAME, place, folder, "use another folder with --run")

    @classmethod
    def take_file(cls, file: Path) -> Self:
        """Lock a file, which is created if need be; raises RunFolderError if somebody else is writing it."""
        place = file.resolve()
        return cls._take(place.with_name(f".{place.name}{cls.NAME}"), place, file, "write another file")

    @classmethod
    def wait_for(cls, marker: Path) -> Self:
        """Lock by means of a file of its own, once nobody else holds it."""
        handle = os.open(marker, _CREATED, 0o644)
        fcntl.flock(handle, fcntl.LOCK_EX)
        return cls(marker, [handle])

    @classmethod
    def _take(cls, marker: Path, place: Path, what: Path, otherwise: str) -> Self:
        if any(lock._marker == marker for lock in cls._held):
            raise RunFolderError(f"{what} is already open for writing in this process; close it first")
        handles: list[int] = []
        try:
            with writing(what):
                handles.append(os.open(marker, _CREATED, 0o644))
                handles.append(os.open(place, os.O_RDONLY if place.is_dir() else _CREATED, 0o644))
            if not all(map(_lock, handles)):
                owner = os.read(handles[0], 20).decode(errors="replace").strip() or "unknown"
                raise RunFolderError(
                    f"another process (id {owner}) is writing {what}; wait for it, or {otherwise}"
                )
            with writing(marker):
                os.ftruncate(handles[0], 0)
                os.write(handles[0], f"{os.getpid()}\n".encode())
        except BaseException:
            _close(handles)
            raise
        return cls(marker, handles)

    @property
    def held(self) -> bool:
        return bool(self._handles)

    def release(self) -> None:
        """Let others in. Calling it twice is allowed."""
        if self._handles:
            os.ftruncate(self._handles[0], 0)
        self._let_go()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()

    def _let_go(self) -> None:
        _close(self._handles)
        self._held.discard(self)

    @classmethod
    def _forget(cls) -> None:
        """In a forked process: locks stay its parent's alone, and end with it."""
        for lock in tuple(cls._held):
            lock._let_go()


os.register_at_fork(after_in_child=RunLock._forget)


def writer(folder: Path) -> int | None:
    """The id of the process on this machine that is writing a run folder, None if there is none.

    It takes no lock, so nobody is kept out meanwhile. A process that is younger than the lock has only the same id.
    """
    import psutil

    path = folder / RunLock.NAME
    try:
        process = psutil.Process(int(path.read_text(encoding="ascii")))
        alive = process.create_time() <= path.stat().st_mtime + 1 and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, ValueError, psutil.Error):
        return None
    return int(process.pid) if alive else None


def _lock(handle: int) -> bool:
    """Whether nobody else has the lock. A file system without locks for folders counts as free: it has the marker."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not isinstance(error, BlockingIOError)
    return True


def _close(handles: list[int]) -> None:
    while handles:
        os.close(handles.pop())
