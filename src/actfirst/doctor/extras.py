"""What is not needed by the default: services that metrics can also go to."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from actfirst.doctor.findings import Check, Finding, State


@dataclass(frozen=True, slots=True)
class Extra:
    """An optional package: what imports it, which distribution carries it, what it is for, how to get it."""

    name: str
    module: str
    distribution: str
    purpose: str
    install: str


EXTRAS = (
    Extra("TensorBoard", "tensorboard", "tensorboard", "tracking", "pip install 'actfirst[tensorboard]'"),
    Extra("W&B", "wandb", "wandb", "tracking", "pip install 'actfirst[wandb]'"),
    Extra("Trackio", "trackio", "trackio", "tracking", "pip install 'actfirst[trackio]'"),
)


def package(extra: Extra) -> Finding:
    """Whether an optional package is there. It is looked for, not imported: some take many seconds."""
    if find_spec(extra.module) is None:
        return Finding(extra.name, State.MISSING, f"not installed (for {extra.purpose})", extra.install)
    return Finding(extra.name, State.OK, f"{_version(extra.distribution)} (for {extra.purpose})")


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "version unknown"


CHECKS = tuple(Check(extra.name, partial(package, extra), extra.install, State.WARN) for extra in EXTRAS)
