"""The published ALFWorld games, where a developer has them beside the repository. Never committed."""

from __future__ import annotations

import tarfile
from functools import lru_cache
from pathlib import Path
from tempfile import mkdtemp

ARCHIVE = Path(__file__).parents[3] / "shared" / "data" / "alfworld" / "valid_seen_games.tar.xz"
ABSENT = "the published games are not beside the repository (../shared/data/alfworld)"


@lru_cache(maxsize=1)
def unpacked(every: int = 10) -> Path:
    """A folder with every tenth game of the seen split, laid out as upstream lays them out."""
    folder = Path(mkdtemp(prefix="alfworld-games-"))
    with tarfile.open(ARCHIVE) as archive:
        games = [member for member in archive.getmembers() if member.name.endswith("game.tw-pddl")]
        for member in sorted(games, key=lambda member: member.name)[::every]:
            target, content = folder / member.name, archive.extractfile(member)
            assert target.resolve().is_relative_to(folder.resolve())
            assert content is not None
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content.read())
    return folder
