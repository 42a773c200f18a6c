"""Results of measurements as files: what was measured, by which command, on which machine, and the numbers.

A result file is one JSON object with a header (`kind`, `made`, `command`, `actfirst`, `machine`) beside its own fields.
Reports read these files and run folders, and nothing else.
"""

from __future__ import annotations

import os
import platform
import shlex
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from actfirst import __version__
from actfirst.environments.findings import installed_version
from actfirst.errors import ConfigError, RunFolderError
from actfirst.runs import files
from actfirst.runs.preparation import PREPARATION
from actfirst.runs.record import read_object

BENCH_ROLLOUT = "bench-rollout"
BENCH_QUALITY = "bench-quality"
BENCH_STAGES = "bench-stages"
BENCH_DISTANCE = "bench-distance"
EVALUATION = "evaluation"
KINDS = (BENCH_ROLLOUT, BENCH_QUALITY, EVALUATION, PREPARATION)


def store(path: Path, kind: str, fields: Mapping[str, object]) -> None:
    """Write a result; missing folders are made."""
    with files.writing(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    files.write_json(path, {**header(kind), **fields})


def read_unfinished(path: Path, wanted: Mapping[str, object]) -> dict[str, object] | None:
    """What a stopped measurement of the same settings left, or None; another measurement's file is refused."""
    if not path.exists():
        return None
    found = read_object(path)
    differing = [key for key, value in wanted.items() if found.get(key) != value]
    if differing:
        raise ConfigError(
            f"{path} holds another measurement (other {', '.join(differing)}); name another file with --out, "
            "or remove that one"
        )
    return found


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
        "torch": installed_version("torch") or "absent",
    }


def machines(results: Iterable[Mapping[str, Any]]) -> tuple[str, ...]:
    """The machines of some results, each once, as lines."""
    lines = []
    for data in results:
        if isinstance(facts := data.get("machine"), dict):
            parts = [f"{key.replace('_', ' ')}: {value}" for key, value in facts.items()]
            lines.append(f"actfirst {data.get('actfirst', '')}; {'; '.join(parts)}")
    return tuple(dict.fromkeys(lines))


def read_stored(path: Path, kind: str) -> dict[str, Any]:
    """The result of that kind in a file, header and all."""
    data = read_object(path)
    if data.get("kind") != kind:
        raise RunFolderError(f"{path} is not a stored result of {kind}")
    return data


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
