"""The machine: interpreter, torch, processor, memory, disk."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import tempfile
from pathlib import Path

from actfirst.environments.findings import Check, Finding, State

RUNS = Path("runs")
_GIGABYTE = 1024**3
_LEAST_PYTHON = (3, 11)
_REINSTALL = "pip install --force-reinstall actfirst"


def python() -> Finding:
    version = f"{platform.python_version()} at {sys.prefix}"
    if sys.version_info < _LEAST_PYTHON:
        return Finding("Python", State.BROKEN, version, "make a virtual environment with Python 3.11 or newer")
    return Finding("Python", State.OK, version)


def torch_build() -> Finding:
    import torch

    capability = torch.backends.cpu.get_cpu_capability()
    detail = f"{torch.__version__}, {torch.get_num_threads()} threads, {capability}"
    flags = processor_flags()
    half = sorted({"avx512_bf16", "amx_bf16"} & flags)
    detail += f", bfloat16 by {' and '.join(half)}" if half else ", no bfloat16 instructions"
    return Finding("torch", State.OK, detail)


def threads() -> Finding:
    import torch

    cores, used, asked = usable_cores(), torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    detail = f"{cores} usable cores, torch uses {used}, OMP_NUM_THREADS={asked or 'not set'}"
    if used > cores:
        return Finding("threads", State.WARN, detail, f"export OMP_NUM_THREADS={cores}")
    if asked == "1" and cores > 1:
        return Finding("threads", State.WARN, detail, f"unset OMP_NUM_THREADS, or set it to {cores}")
    return Finding("threads", State.OK, detail)


def gpu() -> Finding:
    import torch

    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(place) for place in range(torch.cuda.device_count()))
        return Finding("GPU", State.OK, names)
    return Finding("GPU", State.OK, "none; the pocket recipe needs none, the paper's recipes do")


def memory() -> Finding:
    import psutil

    state = psutil.virtual_memory()
    detail = f"{state.available / _GIGABYTE:.1f} of {state.total / _GIGABYTE:.1f} GB available"
    if state.available < 1.5 * _GIGABYTE:
        return Finding("memory", State.WARN, detail, "close other programs; the pocket recipe wants 1.5 GB")
    return Finding("memory", State.OK, detail)


def disk() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    detail = f"{free / _GIGABYTE:.1f} GB free here"
    if free < _GIGABYTE:
        return Finding("disk", State.WARN, detail, "free some space, or work in a folder on another disk")
    return Finding("disk", State.OK, detail)


def runs_folder() -> Finding:
    place = RUNS if RUNS.is_dir() else RUNS.absolute().parent
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        remedy = "work in a folder that you may write, or choose one: actfirst train pocket --run FOLDER"
        return Finding("runs folder", State.BROKEN, f"cannot write {place}: {error.strerror}", remedy)
    return Finding("runs folder", State.OK, f"runs go to {RUNS}{os.sep}, which can be written")


def usable_cores() -> int:
    """Cores that this process may use: containers and schedulers allow fewer than the machine has."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def processor_flags() -> set[str]:
    """The instruction sets of the processor on Linux; empty elsewhere."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.startswith("flags") for flag in line.partition(":")[2].split()}


CHECKS = (
    Check("Python", python, "make a virtual environment with Python 3.11 or newer"),
    Check("torch", torch_build, _REINSTALL),
    Check("threads", threads, _REINSTALL),
    Check("GPU", gpu, "fix the driver, or hide the GPU: export CUDA_VISIBLE_DEVICES="),
    Check("memory", memory, _REINSTALL),
    Check("disk", disk, "work in a folder that exists"),
    Check("runs folder", runs_folder, "work in a folder that you may write"),
)
