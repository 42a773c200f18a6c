"""GPUs: whether this machine has what a recipe asks for (driver, count, memory, NCCL, shared memory)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from actfirst.config.config import Config
from actfirst.environments.findings import Finding, State
from actfirst.methods.table import needs_teacher
from actfirst.training.footprint import Footprint, footprints

_GB = 1e9


@dataclass(frozen=True, slots=True)
class Machine:
    """What is here. `driver` is a program that comes with it, `nccl` a version; both are empty where there is none.

    `memory` are the bytes of each GPU that torch finds, `shared` the free bytes of shared memory.
    """

    memory: tuple[float, ...] = ()
    driver: str = ""
    cuda: str = ""
    nccl: str = ""
    shared: float = 0.0

    @classmethod
    def look(cls) -> Machine:
        import torch

        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        nccl = torch.distributed.is_available() and torch.distributed.is_nccl_available()
        place = Path("/dev/shm")
        return cls(
            tuple(float(torch.cuda.get_device_properties(i).total_memory) for i in range(there)),
            shutil.which("nvidia-smi") or "",
            str(torch.version.cuda or ""),
            ".".join(map(str, torch.cuda.nccl.version())) if nccl else "",  # type: ignore[no-untyped-call]
            float(shutil.disk_usage(place).free) if place.is_dir() else 0.0,
        )


def gpu_findings(config: Config, machine: Machine) -> Iterator[Finding]:
    """One finding for each thing that a recipe with GPUs needs of this machine."""
    runtime = config.runtime
    teachers = runtime.teacher_replicas if config.teacher.kind != "server" and needs_teacher(config) else 0
    wanted = (
        runtime.rollout_engines * runtime.engine_gpus
        + teachers * runtime.teacher_gpus
        + runtime.learners * runtime.learner_gpus
    )
    if not wanted:
        yield Finding("recipe GPUs", State.OK, "it reserves none")
        return
    if runtime.address:
        yield Finding(
            "recipe GPUs", State.WARN, f"the cluster at {runtime.address} was not looked at", "run this there"
        )
        return
    yield _count(wanted, machine)
    if not machine.memory:
        return
    yield from _memory(config, machine)
    if runtime.learners > 1 or runtime.weight_sync != "store":
        yield _nccl(machine)
    yield from _shared(config, machine)


def _count(wanted: float, machine: Machine) -> Finding:
    there = len(machine.memory)
    detail = f"{there} here, the recipe reserves {wanted:g}"
    if there >= wanted:
        return Finding("recipe GPUs", State.OK, detail)
    remedy = "lower the counts and *_gpus of [runtime], or join a cluster: runtime.address"
    if not there and not machine.cuda:
        remedy = "install a build of torch for CUDA; " + remedy
    elif not there:
        fault = "the driver is there but torch cannot use it" if machine.driver else "no driver (nvidia-smi)"
        detail, remedy = f"{detail}: {fault}", "install or update the NVIDIA driver, and start again"
    return Finding("recipe GPUs", State.BROKEN, detail, remedy)


def _memory(config: Config, machine: Machine) -> Iterator[Finding]:
    least = min(machine.memory)
    for part in footprints(config, gpu_bytes=least):
        gpus, keys = _share_of(config, part)
        if not gpus:
            continue
        each = part.total / max(1.0, gpus)
        detail = f"{part.part} ({part.model}): {each / _GB:.1f} of {least / _GB:.0f} GB estimated for each GPU"
        fits = each <= min(gpus, 1.0) * least and part.bytes_of.get("KV cache", 1.0) > 0
        if fits:
            yield Finding("GPU memory", State.OK, detail)
        else:
            yield Finding("GPU memory", State.BROKEN, detail, keys)


def _share_of(config: Config, part: Footprint) -> tuple[float, str]:
    """GPUs of one process of a part, and what lowers its need."""
    runtime = config.runtime
    return {
        "rollout engine": (runtime.engine_gpus, "raise engine.vllm.tensor_parallel and runtime.engine_gpus"),
        "teacher replica": (
            runtime.teacher_gpus,
            "raise teacher.vllm.tensor_parallel and runtime.teacher_gpus",
        ),
        "learner rank": (
            runtime.learner_gpus,
            "raise runtime.learners, lower learner.token_budget, or set learner.activation_checkpointing = true",
        ),
    }[part.part]


def _nccl(machine: Machine) -> Finding:
    if machine.nccl:
        return Finding("NCCL", State.OK, machine.nccl)
    return Finding(
        "NCCL",
        State.BROKEN,
        "this build of torch has none, and GPUs of several processes talk by it",
        "install a build of torch for CUDA; with one learner rank runtime.weight_sync=store also helps",
    )


def _shared(config: Config, machine: Machine) -> Iterator[Finding]:
    """New weights reach vLLM's processes as files in shared memory, one copy for each engine at the same time."""
    weights = [part.bytes_of["weights"] for part in footprints(config) if part.part == "rollout engine"]
    if config.engine.kind != "vllm" or not weights:
        return
    needed = 1.2 * weights[0] * config.runtime.rollout_engines
    detail = f"{machine.shared / _GB:.1f} GB free, new weights of all engines take {needed / _GB:.1f} GB"
    if machine.shared >= needed:
        yield Finding("shared memory", State.OK, detail)
    else:
        remedy = "docker run --shm-size, or --ipc=host; without it weights go over the disk"
        yield Finding("shared memory", State.WARN, detail, remedy)
