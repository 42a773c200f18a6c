"""Writes requirements.lock and requirements-dev.lock: what `make train` and `make test` install, with its hashes.

    make lock        after a change of pyproject.toml, in an environment in which the tests pass

Versions are those of this environment; hashes are those of every file of a version that pip's index has, so that a lock
holds for other machines and Pythons too. torch is left out, with what only torch needs: its build differs by machine
(TORCH=cpu comes from an index of its own), and pyproject.toml pins its version.
"""

from __future__ import annotations

import re
import sys
import urllib.request
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename
from pip._internal.models.index import PyPI

ROOT = Path(__file__).resolve().parents[1]
LEFT_OUT = {"actfirst", "torch"}
_LINK = re.compile(r'href="[^"]*#sha256=([0-9a-f]{64})"[^>]*>([^<]+)</a>')


def closure(extras: set[str]) -> dict[str, str]:
    """Names and versions of everything that actfirst needs here, with these extras."""
    found: dict[str, str] = {}
    waiting = [("actfirst", frozenset(extras))]
    seen = set()
    while waiting:
        name, wanted = waiting.pop()
        if (name, wanted) in seen:
            continue
        seen.add((name, wanted))
        try:
            package = distribution(name)
        except PackageNotFoundError:
            continue
        if name not in LEFT_OUT:
            found[name] = package.version
        elif name == "torch":
            continue
        for text in package.requires or ():
            needed = Requirement(text)
            if needed.marker is None or any(
                needed.marker.evaluate({"extra": extra}) for extra in ("", *wanted)
            ):
                waiting.append((canonicalize_name(needed.name), frozenset(needed.extras)))
    return dict(sorted(found.items()))


def hashes(name: str, version: str) -> list[str]:
    """Those of all files of a version."""
    with urllib.request.urlopen(f"{PyPI.simple_url}/{name}/", timeout=60) as answer:
        page = answer.read().decode()
    return sorted({digest for digest, file in _LINK.findall(page) if _version(file) == version})


def _version(file: str) -> str:
    try:
        return str(parse_wheel_filename(file)[1] if file.endswith(".whl") else parse_sdist_filename(file)[1])
    except ValueError:
        return ""


def main() -> None:
    known: dict[str, list[str]] = {}
    for file, extras in (("requirements.lock", set[str]()), ("requirements-dev.lock", {"dev"})):
        lines = [
            f"# Made by `make lock`; {file.removesuffix('.lock')} without torch, which differs by machine."
        ]
        for name, version in closure(extras).items():
            digests = known.setdefault(name, hashes(name, version))
            if not digests:
                raise SystemExit(f"error: {PyPI.simple_url} has no file of {name} {version}")
            lines.append(" \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{one}" for one in digests)]))
        (ROOT / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
        sys.stdout.write(f"{file}: {len(lines) - 1} packages\n")


if __name__ == "__main__":
    main()
