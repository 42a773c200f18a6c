"""Building and verifying a store: sources, resumption, parallel workers, perfect replay."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from actfirst.environments.alfworld.kind import KIND as ALFWORLD
from actfirst.environments.alfworld.world import AlfworldWorld
from actfirst.environments.pocket.kind import KIND
from actfirst.environments.pocket.world import PocketWorld
from actfirst.environments.solving import ReferenceSources
from actfirst.errors import ConfigError, ReferenceStoreError
from actfirst.records import ReferenceStep, Task
from actfirst.references.build.build import Plan, build_store
from actfirst.references.build.coverage import coverage
from actfirst.references.build.verify import Verified, summarise, verify_store
from actfirst.references.live import LiveReferences
from actfirst.references.sources import Import
from actfirst.references.store import ReferenceStore, ReferenceWriter
from tests.environments.published import ABSENT, ARCHIVE, unpacked
from tests.references.worlds import WEATHER, CursedWorld, WeatherWorld
from tests.support.toy_world import CORRIDOR, CorridorWorld

POCKET = partial(PocketWorld, train=12)
TASKS = POCKET().tasks("train")


def demonstrations(path: Path, world: CorridorWorld, count: int = 6) -> Path:
    """A file that solves the first corridors."""
    records = [
        {"task_id": task.id, "actions": ["go east"] * (int(task.kind[-1]) - 1) + ["pull lever"]}
        for task in world.tasks("train")[:count]
    ]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize("source", ["walkthrough", "solver", "expert", "best"])
def test_a_reference_followed_by_its_own_actions_passes_every_check(source: str, tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    build_store(KIND, POCKET, Plan((source,)), TASKS, path)
    found = verify_store(KIND, POCKET, path, TASKS)
    assert (found.overall.tasks, found.overall.counted, found.overall.aligned) == (12, 12, 12)
    assert found.overall.percent == 100.0
    assert found.failures == ()


def test_best_is_no_longer_than_any_single_source(tmp_path: Path) -> None:
    lengths: dict[str, list[int]] = {}
    for source in (*KIND.sources.ways, "best"):
        path = tmp_path / source
        build_store(KIND, POCKET, Plan((source,)), TASKS, path)
        store = ReferenceStore.open(path, POCKET())
        lengths[source] = [len(reference.steps) for task in TASKS if (reference := store.get(task))]
    assert all(
        best == min(others) for best, *others in zip(lengths.pop("best"), *lengths.values(), strict=True)
    )


def test_a_source_that_the_world_does_not_have_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"pocket has no source .* 'gold'; it has walkthrough, solver, expert"
    ):
        build_store(KIND, POCKET, Plan(("gold",)), TASKS, tmp_path / "store.jsonl")
    with pytest.raises(ConfigError, match="import demonstrations, or let a teacher play"):
        build_store(CORRIDOR, CorridorWorld, Plan(("gold",)), TASKS, tmp_path / "store.jsonl")
    assert list(tmp_path.iterdir()) == []


def solutions(world: CorridorWorld, task: Task) -> Iterator[Sequence[str]]:
    yield ["go east"] * 9
    yield ["go east"] * (int(task.kind[-1]) - 1) + ["pull lever"]


def test_an_environment_that_says_how_its_tasks_are_solved_needs_nothing_else(tmp_path: Path) -> None:
    chosen, path = CorridorWorld().tasks("train")[:4], tmp_path / "store.jsonl"
    kind = replace(CORRIDOR, sources=ReferenceSources({"solutions": solutions}))
    build_store(kind, CorridorWorld, Plan(("best",)), chosen, path)
    assert coverage(ReferenceStore.open(path, CorridorWorld())).sources == {"solutions": 4}
    assert LiveReferences(kind, CorridorWorld(), "best").get(chosen[0]) is not None


def test_a_resumed_build_asks_only_new_sources_and_tasks(tmp_path: Path) -> None:
    world, path = CorridorWorld(), tmp_path / "store.jsonl"
    chosen, asked = world.tasks("train")[:8], []

    def tell(done: int, of: int, attempt: object) -> None:
        if attempt is not None:
            asked.append(attempt)

    first = Plan((), (Import(demonstrations(tmp_path / "a.jsonl", world, 2)),))
    build_store(CORRIDOR, CorridorWorld, first, chosen, path, on_task=tell)
    store = ReferenceStore.open(path, world)
    assert (len(asked), len(store), len(store.task_ids())) == (8, 2, 8), (
        "tasks without a reference are kept too"
    )
    build_store(CORRIDOR, CorridorWorld, first, chosen, path, on_task=tell)
    assert len(asked) == 8
    more = Plan((), (*first.imports, Import(demonstrations(tmp_path / "b.jsonl", world, 6), "teacher:b")))
    build_store(CORRIDOR, CorridorWorld, more, chosen, path, on_task=tell)
    assert len(asked) == 16
    found = coverage(ReferenceStore.open(path, world))
    assert found.sources == {"teacher:b": 4, "import:a.jsonl": 2}
    assert found.reasons == {"no source has a candidate": 2}
    build_store(CORRIDOR, CorridorWorld, replace(more, again=True), chosen, path, on_task=tell)
    assert len(asked) == 24


def test_workers_build_the_same_and_a_cursed_task_costs_only_itself(tmp_path: Path) -> None:
    """Task 001 kills its process, task 002 hangs: both are recorded as failed, and tried again by the next build."""
    plan = Plan((), (Import(demonstrations(tmp_path / "a.jsonl", CorridorWorld())),), workers=2, seconds=2.0)
    chosen, path = CorridorWorld().tasks("train")[:6], tmp_path / "store.jsonl"
    build_store(CORRIDOR, CursedWorld, plan, chosen, path)
    store = ReferenceStore.open(path, CorridorWorld())
    reasons = {task.id[-3:]: attempt.reason for task in chosen if (attempt := store.attempt(task.id))}
    assert reasons["001"] == "failed: the worker process ended (exit code 7)"
    assert reasons["002"].startswith("failed: the task took longer than 2 s")
    assert [reasons[name] for name in ("000", "003", "004", "005")] == [""] * 4
    build_store(CORRIDOR, CorridorWorld, replace(plan, workers=0), chosen, path)
    assert len(ReferenceStore.open(path, CorridorWorld())) == 6


def test_coverage_counts_tasks_lengths_sources_and_kinds(tmp_path: Path) -> None:
    world, path = CorridorWorld(), tmp_path / "store.jsonl"
    plan = Plan((), (Import(demonstrations(tmp_path / "a.jsonl", world, 6), "public"),))
    build_store(CORRIDOR, CorridorWorld, plan, world.tasks("train")[:8], path)
    found = coverage(ReferenceStore.open(path, world))
    assert (found.tasks, found.turn_limit, found.sources) == (40, 8, {"public": 6})
    everything = found.overall
    assert (everything.attempted, everything.covered, everything.successful) == (8, 6, 6)
    assert (everything.within_limit, everything.unreliable, everything.mean_score) == (6, 0, 100.0)
    assert found.lengths is not None
    assert (found.lengths.least, found.lengths.median, found.lengths.most) == (2, 3, 5)
    assert found.histogram == {"1-5": 6}
    assert {kind: (group.attempted, group.covered) for kind, group in found.by_kind.items()} == {
        "rooms2": (2, 2),
        "rooms3": (2, 2),
        "rooms4": (2, 1),
        "rooms5": (2, 1),
    }


def test_coverage_counts_references_that_are_too_long_or_below_full_score(tmp_path: Path) -> None:
    world, path = CorridorWorld(turn_limit=3), tmp_path / "store.jsonl"
    plan = Plan((), (Import(demonstrations(tmp_path / "a.jsonl", world)),))
    build_store(WEATHER, lambda: world, plan, world.tasks("train")[:4], path)
    writer = ReferenceWriter(path, world)
    attempt = writer.store.attempt(world.tasks("train")[3].id)
    assert attempt is not None
    assert attempt.reference is not None
    writer.add(replace(attempt, reference=replace(attempt.reference, score=40.0)))
    writer.close()
    found = coverage(ReferenceStore.read(path))
    counts = {kind: (group.over_limit, group.below_full_score) for kind, group in found.by_kind.items()}
    assert counts == {"rooms2": (0, 0), "rooms3": (0, 0), "rooms4": (1, 0), "rooms5": (1, 1)}
    assert (found.overall.over_limit, found.overall.below_full_score) == (2, 1)


def test_verification_names_the_first_turn_that_fails_and_why(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    build_store(KIND, POCKET, Plan(("walkthrough",)), TASKS, path)
    writer = ReferenceWriter(path, POCKET())
    attempt = writer.store.attempt(TASKS[0].id)
    assert attempt is not None
    assert attempt.reference is not None
    steps = list(attempt.reference.steps)
    steps[1] = ReferenceStep(steps[1].action, replace(steps[1].observation, text="Something else."))
    broken = replace(attempt.reference, steps=tuple(steps))
    writer.add(replace(attempt, reference=broken))
    writer.close()
    found = verify_store(KIND, POCKET, path, TASKS)
    assert (found.overall.counted, found.overall.aligned) == (12, 11)
    assert found.overall.reasons == {"observation differs": 1}
    assert [(failure.task_id, failure.turn) for failure in found.failures] == [(TASKS[0].id, 2)]
    assert found.by_kind[TASKS[0].kind].aligned == found.by_kind[TASKS[0].kind].counted - 1


class TestTheShareThatPasses:
    ASKED = tuple(Task(name, "train", "k" if name < "e" else "other") for name in "abcde")
    RELIABLE = (Verified("a", "k", True, "", 3),)
    UNRELIABLE = (Verified("b", "k", False, "observation differs", 3), Verified("c", "k", False, "", 3))

    def test_is_one_of_all_tasks_where_nothing_is_left_to_chance(self) -> None:
        found = summarise(self.ASKED, [*self.RELIABLE, *self.UNRELIABLE], chance=False)
        share = found.overall
        assert (share.tasks, share.counted, share.aligned, share.percent) == (5, 5, 1, 20.0)
        assert (share.without, share.unreliable, share.unreliable_aligned) == (2, 2, 1)
        assert (found.by_kind["other"].without, found.by_kind["other"].percent) == (1, 0.0)

    def test_leaves_out_unreliable_references_where_things_are_left_to_chance(self) -> None:
        found = summarise(self.ASKED[:3], [*self.RELIABLE, *self.UNRELIABLE], chance=True)
        share = found.overall
        assert (share.counted, share.percent) == (1, 100.0)
        assert (share.without, share.unreliable, share.unreliable_aligned) == (0, 2, 1)
        assert found.failures == ()

    def test_is_nothing_where_no_task_counts(self) -> None:
        assert summarise(self.ASKED[1:3], self.UNRELIABLE, chance=True).overall.percent == 0.0

    def test_counts_tasks_without_a_reference_in_a_store(self, tmp_path: Path) -> None:
        path = tmp_path / "store.jsonl"
        build_store(KIND, POCKET, Plan(("walkthrough",)), TASKS[:3], path)
        share = verify_store(KIND, POCKET, path, TASKS).overall
        assert (share.aligned, share.without, share.percent) == (3, 9, 25.0)
        assert verify_store(KIND, POCKET, path, TASKS[:3]).overall.percent == 100.0

    def test_knows_which_worlds_leave_things_to_chance(self, tmp_path: Path) -> None:
        world, path = WeatherWorld(every=2), tmp_path / "store.jsonl"
        plan = Plan((), (Import(demonstrations(tmp_path / "a.jsonl", world, 2)),))
        chosen = world.tasks("train")[:2]
        build_store(WEATHER, lambda: world, plan, chosen, path)
        share = verify_store(WEATHER, lambda: world, path, chosen).overall
        assert (share.tasks, share.counted, share.unreliable, share.percent) == (2, 0, 2, 0.0)
        assert verify_store(CORRIDOR, CorridorWorld, path, chosen).overall.counted == 2


def test_a_verification_that_is_given_up_leaves_an_unreliable_reference_unreliable(tmp_path: Path) -> None:
    """Task 001 kills its process; its reference is marked unreliable."""
    world, path = CorridorWorld(), tmp_path / "store.jsonl"
    chosen = world.tasks("train")[:2]
    build_store(
        CORRIDOR, CorridorWorld, Plan((), (Import(demonstrations(tmp_path / "a.jsonl", world)),)), chosen, path
    )
    writer = ReferenceWriter(path, world)
    attempt = writer.store.attempt(chosen[1].id)
    assert attempt is not None
    assert attempt.reference is not None
    writer.add(replace(attempt, reference=replace(attempt.reference, reliable=False)))
    writer.close()
    found = verify_store(CORRIDOR, CursedWorld, path, chosen, workers=1)
    assert (found.overall.aligned, found.overall.unreliable, found.overall.reasons) == (1, 1, {})


def test_verification_of_tasks_that_have_no_reference_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "store.jsonl"
    build_store(KIND, POCKET, Plan(("walkthrough",)), TASKS[:1], path)
    with pytest.raises(ReferenceStoreError, match="no reference of the 11 tasks"):
        verify_store(KIND, POCKET, path, TASKS[1:])


@pytest.mark.skipif(not ARCHIVE.is_file(), reason=ABSENT)
def test_published_alfworld_games_are_covered_and_replay(tmp_path: Path) -> None:
    opener = partial(AlfworldWorld, unpacked())
    chosen, path = opener().tasks("valid_seen"), tmp_path / "store.jsonl"
    build_store(ALFWORLD, opener, Plan(("best",)), chosen, path)
    assert len(ReferenceStore.open(path, opener())) == len(chosen) == 14
    assert verify_store(ALFWORLD, opener, path, chosen).overall.percent == 100.0
