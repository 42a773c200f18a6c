"""Whether a recipe's devices fit each other and this machine, before anything starts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from actfirst.config.config import Config
from actfirst.errors import ConfigError
from actfirst.methods.table import needs_teacher
from actfirst.models.device import compute_device


@dataclass(frozen=True, slots=True)
class Part:
    """A part that computes: the section that says on what, and the GPUs that each of its processes may use.

    `gpus` is None where nothing is reserved: a part of this process may use all that are here.
    """

    section: str
    device: str
    gpus: float | None
    parallel: int

    @property
    def gpus_key(self) -> str:
        return f"runtime.{self.section}_gpus"


def parts_of(config: Config) -> Iterator[Part]:
    runtime, ray = config.runtime, config.runtime.kind == "ray"

    def parallel(kind: str, wanted: int) -> int:
        return wanted if kind == "vllm" else 1

    engine, teacher = config.engine, config.teacher
    yield Part("learner", config.learner.device, runtime.learner_gpus if ray else None, 1)
    shared = parallel(engine.kind, engine.vllm.tensor_parallel)
    yield Part("engine", engine.device, runtime.engine_gpus if ray else None, shared)
    if teacher.kind != "server" and needs_teacher(config):
        shared = parallel(teacher.kind, teacher.vllm.tensor_parallel)
        yield Part("teacher", teacher.device, runtime.teacher_gpus if ray else None, shared)


def check_devices(config: Config) -> None:
    """Refuse a part that cannot have the device that it asks for."""
    for part in parts_of(config):
        _check_device(part)
        _check_parallel(part)


def _check_device(part: Part) -> None:
    key = f"{part.section}.device"
    if part.gpus is None:
        compute_device(part.device, key)
    elif part.device == "cuda" and not part.gpus:
        raise ConfigError(f'{key} = "cuda" needs a GPU for each: set {part.gpus_key} = {part.parallel}')
    elif part.device == "cpu" and part.gpus:
        raise ConfigError(
            f'{key} = "cpu" would leave its GPUs idle: set {part.gpus_key} = 0, or {key} = "auto"'
        )


def _check_parallel(part: Part) -> None:
    """An engine over several GPUs needs them all; on CPUs, if that is said, it is up to vLLM."""
    if part.parallel == 1 or part.device == "cpu":
        return
    key = f"{part.section}.vllm.tensor_parallel = {part.parallel}"
    if part.gpus is None:
        import torch

        there, remedy = float(torch.cuda.device_count()), f'lower it, or set {part.section}.device = "cpu"'
    else:
        there, remedy = part.gpus, f"set {part.gpus_key} = {part.parallel}"
    if there < part.parallel:
        raise ConfigError(f"{key} needs {part.parallel} GPUs, and the engine has {there:g}; {remedy}")
