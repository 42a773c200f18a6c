"""The checks of each environment, and whether third-party ones load. The default recipe needs none of these."""

from __future__ import annotations

from contextlib import suppress

from actfirst.environments.findings import Check, Finding, State
from actfirst.environments.registry import GROUP, built_in_kinds, find_kind, installed_environments
from actfirst.errors import EnvironmentFailure


def environment_checks() -> list[Check]:
    """The checks of all environments that load, and one that names those that do not."""
    kinds = list(built_in_kinds().values())
    for name in installed_environments():
        with suppress(EnvironmentFailure):  # `plugins` reports it
            kinds.append(find_kind(name))
    checks = [check for kind in kinds for check in kind.checks()]
    return [*checks, Check("plug-ins", plugins, "remove packages that do not load", State.WARN)]


def plugins() -> Finding:
    """Third-party environments: each must at least load."""
    points = installed_environments()
    for name in points:
        try:
            find_kind(name)
        except EnvironmentFailure as error:
            return Finding("plug-ins", State.WARN, str(error), "install the package again, or remove it")
    detail = ", ".join(points) if points else f"none installed (entry points of the group {GROUP})"
    return Finding("plug-ins", State.OK, detail)
