"""What `pip install 'actfirst[vllm,ray]'` installs on Linux with CUDA: python -m tests.tools.cuda_dependencies

Asks the package index and installs nothing. Run it on x86_64 after a change of the pins; it writes
tests/engines/golden/cuda-dependencies.txt. Local wheels (torch for CPUs, say) are not looked at.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
SNAPSHOT = ROOT / "tests" / "engines" / "golden" / "cuda-dependencies.txt"
_EXTRAS = ("vllm", "ray")


def pins() -> list[str]:
    """What pyproject.toml asks for, with the extras of a machine with GPUs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = (pin for extra in _EXTRAS for pin in project["optional-dependencies"][extra])
    return [*project["dependencies"], *extras]


def snapshot() -> dict[str, str]:
    """Names (in lower case, with hyphens) and versions that were found."""
    lines = SNAPSHOT.read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if line and not line.startswith("#"))


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        report = Path(place) / "report.json"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        subprocess.run(
            [*command, "--only-binary=:all:", "--report", str(report), *pins()],
            check=True,
            env={**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_FIND_LINKS": ""},
        )
        found = json.loads(report.read_text(encoding="utf-8"))
    place_of = found["environment"]
    named = (one["metadata"] for one in found["install"])
    lines = sorted(
        f"{one['name'].lower().replace('_', '-').replace('.', '-')}=={one['version']}" for one in named
    )
    head = [
        "# Made by: python -m tests.tools.cuda_dependencies",
        f"# Python {place_of['python_version']}, {place_of['sys_platform']} {place_of['platform_machine']}",
    ]
    SNAPSHOT.write_text("\n".join([*head, *lines]) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
