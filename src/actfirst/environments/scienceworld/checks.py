"""ScienceWorld: whether the extra is installed, whether Java starts, and whether a task loads and can be played."""

from __future__ import annotations

import time
from importlib.util import find_spec

from actfirst.environments.findings import Check, Finding, State, installed_version
from actfirst.environments.scienceworld.java import INSTALL, VERSION, find_java
from actfirst.environments.scienceworld.world import ScienceworldWorld

NAME = "ScienceWorld"


def scienceworld() -> Finding:
    """Starts the simulator once: that takes a second or two."""
    if find_spec("scienceworld") is None:
        return Finding(NAME, State.MISSING, "not installed", INSTALL)
    found = installed_version("scienceworld")
    if found != VERSION:
        detail = f"version {found}, but tasks and references are those of {VERSION}"
        return Finding(NAME, State.WARN, detail, INSTALL)
    world = ScienceworldWorld()
    started = time.perf_counter()
    environment = world.open()
    try:
        up = time.perf_counter()
        _, seen = environment.reset(world.tasks("train")[0])
    finally:
        environment.close()
    detail = (
        f"{VERSION} with {find_java()}: starts in {up - started:.1f} s, a task loads in "
        f"{time.perf_counter() - up:.1f} s ({len(seen.admissible)} admissible commands)"
    )
    return Finding(NAME, State.OK, detail)


CHECKS = (Check(NAME, scienceworld, INSTALL, State.WARN),)
