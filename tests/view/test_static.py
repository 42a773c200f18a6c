"""The built pages are those of the sources beside them: nobody needs Node.js to find out."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

VIEWER = Path(__file__).parents[2] / "viewer"
STATIC = Path(__file__).parents[2] / "src" / "actfirst" / "view" / "static"
OTHERS = ("package.json", "tsconfig.json", "vite.config.ts")


def test_the_built_pages_correspond_to_their_sources() -> None:
    """The same digest as in viewer/vite.config.ts, which writes it with every build."""
    if not VIEWER.is_dir():
        pytest.skip("the sources of the pages are in a checkout only")
    found = [path for name in ("src", "public") for path in (VIEWER / name).rglob("*") if path.is_file()]
    digest = hashlib.sha256()
    for name in sorted([*(path.relative_to(VIEWER).as_posix() for path in found), *OTHERS]):
        digest.update(f"{name}\n".encode() + (VIEWER / name).read_bytes() + b"\n")
    built = (STATIC / "sources.txt").read_text(encoding="utf-8").strip()
    assert digest.hexdigest() == built, "build the pages again: make viewer"
