"""Results of measurements as files: what was measured, by which command, on which machine, and the numbers.

A result file is one JSON object with a header (`kind`, `made`, `command`, `actfirst`, `machine`) beside its own fields.
Reports read these files and run folders, and nothing else.
"""

from __future__ import annotations

import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from actfirst import __version__
from actfirst.environments.installed import installed_version
from actfirst.errors import RunFolderError
from actfirst.runs import files

BENCH_ROLLOUT = "bench-rollout"
BENCH_QUALITY = "bench-quality"
EVALUATION = "evaluation"
KINDS = (BENCH_ROLLOUT, BENCH_QUALITY, EVALUATION)


@dataclass(frozen=True)
class StoredResult:
    """A result file. `data` is all of it."""

    path: Path
    kind: str
    data: Mapping[str, object]


def store(path: Path, kind: str, fields: Mapping[str, object]) -> None:
    """Write a result; folders on the way are made."""
    with files.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, {**header(kind), **fields})


def header(kind: str) -> dict[str, object]:
    return {
        "kind": kind,
        "made": time.strftime("%Y-%m-%d %H:%M:%S"),
        "command": shlex.join(["actfirst", *sys.argv[1:]]),
        "actfirst": __version__,
        "machine": machine(),
    }


def machine() -> dict[str, object]:
    """What numbers depend on: processor, cores, memory, versions. No names of machines or people."""
    import psutil

    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
        "system": platform.system(),
        "python": platform.python_version(),
        "torch": _torch_version(),
    }


def read_stored(path: Path) -> StoredResult | None:
    """The result in a file; None if the file holds something else."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunFolderError(f"{path} cannot be read as a result: {error}") from error
    kind = data.get("kind") if isinstance(data, dict) else None
    return StoredResult(path, kind, data) if kind in KINDS else None


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _torch_version() -> str:
    return installed_version("torch") or "absent"
