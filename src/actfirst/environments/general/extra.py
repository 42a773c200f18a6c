"""Environments of other packages need those packages: each is an extra of the same name."""

from __future__ import annotations

from importlib.util import find_spec

from actfirst.errors import EnvironmentFailure


def require_extra(name: str) -> None:
    """Raise EnvironmentFailure, which says what to install, where the package is not there."""
    if find_spec(name) is None:
        raise EnvironmentFailure(f"{name} is not installed: pip install 'actfirst[{name}]'")
