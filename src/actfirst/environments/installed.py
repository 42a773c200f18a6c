"""Which version of a package this interpreter has."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version(distribution: str) -> str:
    """Empty where it is not installed."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return ""
