"""WebShop references from its goals (paper, appendix "Reference Trajectories"), on the catalogue of the package."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from actfirst.environments.solving import Care
from actfirst.environments.webshop.kind import KIND
from actfirst.environments.webshop.world import open_webshop
from actfirst.references.build.build import Plan, build_store
from actfirst.references.build.coverage import coverage
from actfirst.references.build.make import Job, Maker
from actfirst.references.build.verify import verify_store
from actfirst.references.sources import Import, open_sources
from actfirst.references.store import ReferenceStore
from tests.references.worlds import Written

OPEN = partial(open_webshop, nouns="simple", splits={"train": range(25)})
WORLD = OPEN()
TASKS = WORLD.tasks("train")


def test_oracle_solutions_reach_high_scores_and_replay(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    build_store(KIND, OPEN, Plan(("best",)), TASKS, path)
    found = coverage(ReferenceStore.open(path, WORLD))
    assert (found.overall.covered, found.sources) == (25, {"oracle": 25})
    assert found.overall.mean_score > 95
    assert found.overall.within_limit == 25
    assert verify_store(KIND, OPEN, path, TASKS).overall.percent == 100.0


def test_available_actions_are_kept_because_the_check_compares_them(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    build_store(KIND, OPEN, Plan(("oracle",)), TASKS[:1], path)
    reference = ReferenceStore.open(path, WORLD).get(TASKS[0])
    assert reference is not None
    assert reference.initial.templates
    assert all(step.observation.admissible for step in reference.steps[:-1])


def test_a_higher_score_beats_fewer_actions() -> None:
    """The paper's order for WebShop: higher score, and then fewer actions."""
    (oracle,) = open_sources(KIND, WORLD, ["oracle"], [])
    solved = {task: next(iter(oracle.candidates(task, ""))).actions for task in TASKS}
    task, full = next((task, actions) for task, actions in solved.items() if len(actions) > 3)
    hasty = (*full[:2], full[-1])  # buys without choosing options
    made = Maker(KIND, WORLD, [Written((hasty, full))], Care()).work(Job(task))
    assert made.reference is not None
    assert tuple(step.action for step in made.reference.steps) == full
    assert made.reference.steps[-1].observation.done


def test_a_public_demonstration_is_found_by_its_instruction_and_brought_into_form(tmp_path: Path) -> None:
    """Other price clause, capitals in clicks, a second search where there is no search bar: still a purchase."""
    instruction, _ = WORLD.open().reset(TASKS[3])
    (oracle,) = open_sources(KIND, WORLD, ["oracle"], [])
    actions = next(iter(oracle.candidates(TASKS[3], ""))).actions
    said = [
        actions[0],
        "search[something else]",
        *(action.replace("click[", "click [ ") for action in actions[1:]),
    ]
    wish = instruction.partition(", and price")[0]
    chat = [
        {"role": "user", "content": f"Instruction: [SEP] {wish.upper()}, and price lower than 7.00 dollars"}
    ]
    chat += [{"role": "assistant", "content": f"Thought: well.\nAction: {action}"} for action in said]
    file = tmp_path / "public.jsonl"
    file.write_text(json.dumps({"id": 1, "messages": chat}) + "\n")
    build_store(KIND, OPEN, Plan((), (Import(file),)), TASKS, tmp_path / "store.jsonl")
    store = ReferenceStore.open(tmp_path / "store.jsonl", WORLD)
    reference = store.get(TASKS[3])
    assert reference is not None
    assert tuple(step.action for step in reference.steps) == actions
