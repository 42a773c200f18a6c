"""What a check finds. A check is a small function without arguments that returns one finding."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from importlib.metadata import PackageNotFoundError, version


class State(StrEnum):
    """WARN: works, but not well; MISSING: an option that is not installed; BROKEN: the default cannot run."""

    OK = "ok"
    WARN = "warn"
    MISSING = "missing"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report. `remedy` is empty where nothing is to be done."""

    name: str
    state: State
    detail: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A named check. `remedy` is what to do when the check itself fails, `failed` what that means."""

    name: str
    run: Callable[[], Finding]
    remedy: str
    failed: State = State.BROKEN


def examine(checks: Sequence[Check]) -> Iterator[Finding]:
    """Run checks one after the other; one that raises is a finding too."""
    for check in checks:
        try:
            yield check.run()
        except Exception as error:  # whatever is broken on a machine, the report goes on
            yield Finding(check.name, check.failed, f"{type(error).__name__}: {error}", check.remedy)


def installed_version(distribution: str) -> str:
    """The version of a package in this interpreter; empty where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
