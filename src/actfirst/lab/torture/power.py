"""The loss of power: what was not brought to the disk may be gone.

A file has the content that it had when it was last synced, a folder the names that it had when it was last synced; or
either is as it was at the end, because a kernel writes whenever it likes. A throw of the dice decides for each of them.
What is there when the process begins is on the disk.
"""

from __future__ import annotations

import os
import random
import threading
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from actfirst.lab.torture.troubles import ANY, Struck, at, die, unnoted

Names = dict[str, int]
"""What a folder holds: names, and what they stand for."""


_open = os.open  # also once file operations are watched


def after_cut(disk: Path) -> Path:
    """Where the trouble puts what a cut leaves of a folder."""
    return disk.with_name(f"{disk.name}-after-cut")


@dataclass
class Disk:
    """What has reached the disk of everything below a folder, by inode. Inodes are kept open: none is used again."""

    root: Path
    folders: dict[int, Names] = field(default_factory=dict)
    files: dict[int, bytes] = field(default_factory=dict)
    _held: dict[int, int] = field(default_factory=dict)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def watch(self) -> None:
        """From here on `os.fsync` brings things to this disk."""
        for path in (self.root, *self.root.rglob("*")):
            self._bring(path)
        sync = os.fsync

        def fsync(handle: int) -> None:
            sync(handle)
            self.synced(handle)

        vars(os)["fsync"] = fsync

    def synced(self, handle: int) -> None:
        """What an open file or folder is now, is on the disk."""
        path = Path(os.readlink(f"/proc/self/fd/{handle}"))
        if self.root in (path, *path.parents):
            self._bring(path)

    def _bring(self, path: Path) -> None:
        with self._lock:
            try:
                handle = _open(path, os.O_RDONLY)
                inode = os.fstat(handle).st_ino
                if path.is_dir():
                    self.folders[inode] = _names(path)
                else:
                    self.files[inode] = path.read_bytes()
            except FileNotFoundError:
                return  # another thread has removed it
            if self._held.setdefault(inode, handle) != handle:
                os.close(handle)

    def cut(self, target: Path, dice: random.Random) -> None:
        """Write what is left of the folder to `target`, which does not exist."""
        with self._lock:
            folders: dict[int, Names] = {}
            files: dict[int, bytes] = {}
            for path in (self.root, *self.root.rglob("*")):
                with suppress(FileNotFoundError):
                    inode = path.stat().st_ino
                    if path.is_dir():
                        folders[inode] = _names(path)
                    else:
                        files[inode] = path.read_bytes()

            def write(inode: int, place: Path) -> None:
                if inode in folders or inode in self.folders:
                    place.mkdir()
                    names = self.folders.get(inode, {})
                    for name, inner in dice.choice((names, folders.get(inode, names))).items():
                        write(inner, place / name)
                else:
                    synced = self.files.get(inode, b"")
                    place.write_bytes(dice.choice((synced, files.get(inode, synced))))

            write(self.root.stat().st_ino, target)


def _names(folder: Path) -> Names:
    return {entry.name: entry.stat(follow_symlinks=False).st_ino for entry in os.scandir(folder)}


@dataclass(frozen=True)
class PowerCut:
    """At the `count`-th file operation the power goes. What is left of a folder is in `after_cut` of it then."""

    count: int
    seed: int
    folder: Path = Path()
    kind: str = "power cut"
    kills: bool = True

    def __call__(self, struck: Struck = unnoted) -> None:
        disk = Disk(self.folder.resolve())
        disk.watch()

        def cut() -> None:
            struck()
            disk.cut(after_cut(self.folder), random.Random(self.seed))
            die()

        at(ANY, self.count, cut)
