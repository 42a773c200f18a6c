"""Third-party environments that are installed here, by name. Nothing is imported before one is asked for.

A package announces an environment in its metadata:

    [project.entry-points."actfirst.environments"]
    corridor = "corridor:open_world"
"""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points

GROUP = "actfirst.environments"


def installed_environments() -> dict[str, EntryPoint]:
    """The entry points of all installed packages, by name."""
    return {point.name: point for point in entry_points(group=GROUP)}
