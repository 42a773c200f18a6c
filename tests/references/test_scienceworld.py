"""ScienceWorld references: gold paths, shortened and worded as they are admissible (paper, appendix "Reference
Trajectories"). Needs the simulator; minutes."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest

from actfirst.environments.scienceworld.kind import KIND
from actfirst.environments.scienceworld.world import ScienceworldWorld
from actfirst.references.build.build import Plan, build_store
from actfirst.references.build.verify import verify_store
from actfirst.references.store import ReferenceStore
from tests.support.kinds import RULES

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("scienceworld") is None, reason="the extra scienceworld is not installed"),
]


def test_gold_paths_become_short_admissible_references_that_replay(tmp_path: Path) -> None:
    opener = partial(ScienceworldWorld, ("boil", "test-conductivity", "power-component"))
    world, path = opener(), tmp_path / "store.jsonl"
    chosen = [task for task in world.tasks("train") if task.id.endswith("/0")]
    build_store(KIND, opener, Plan(("gold",), workers=1), chosen, path)
    store = ReferenceStore.open(path, world)
    environment = world.open()
    for task in chosen:
        reference = store.get(task)
        assert reference is not None
        assert (reference.score, reference.reliable) == (100.0, True)
        assert len(reference.steps) <= 12, "the gold paths have 39, 21 and some 10 commands"
        assert not reference.initial.admissible, "up to 1,600 strings that no check compares"
        _, seen = environment.reset(task)
        for step in reference.steps:
            assert RULES["scienceworld"].valid(step.action, seen)
            seen = environment.step(step.action)
    environment.close()
    found = verify_store(KIND, opener, path, chosen, workers=1)
    assert (found.overall.aligned, found.overall.unreliable) == (3, 0)
