"""References on disk: exact round trip, resumable, and clear about what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from actfirst.alignment import RULES, Carry, Transition
from actfirst.envs.pocket.world import PocketWorld
from actfirst.errors import ReferenceStoreError, RunFolderError
from actfirst.records import Task
from actfirst.references.build import build_store
from actfirst.references.replay import replay
from actfirst.references.sources import GameReferences, Source
from actfirst.references.store import ReferenceStore

WORLD = PocketWorld(train=12)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "references.jsonl"
    report = build_store(WORLD, "walkthrough", WORLD.tasks("train"), path)
    assert report.covered == 12
    return path


def test_a_store_gives_back_exactly_what_was_written(store: Path) -> None:
    read, made = ReferenceStore.open(store, WORLD), GameReferences(WORLD, "walkthrough")
    assert len(read) == 12
    assert all(read.get(task) == made.get(task) for task in WORLD.tasks("train"))
    assert read.get(Task("pocket/train/999999-pick", "train", "pick")) is None


@pytest.mark.parametrize("source", ["walkthrough", "expert"])
def test_a_reference_followed_by_its_own_actions_passes_every_check(source: Source) -> None:
    environment, references = WORLD.open(), GameReferences(WORLD, source)
    for task in WORLD.tasks("train"):
        reference = references.get(task)
        assert reference is not None
        _, seen = environment.reset(task)
        for number, step in enumerate(reference.steps):
            after = environment.step(step.action)
            following = reference.steps[number + 1].action if number + 1 < len(reference.steps) else None
            transition = Transition(seen, step.action, after, step, following)
            assert RULES["alfworld"].check(transition, Carry()).aligned
            seen = after
        assert seen.success


def test_building_again_adds_only_what_is_missing_also_after_a_kill_in_the_middle_of_a_line(
    store: Path,
) -> None:
    whole = store.read_bytes()
    lines = whole.splitlines(keepends=True)
    store.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    build_store(WORLD, "walkthrough", WORLD.tasks("train"), store)
    assert store.read_bytes() == whole


def test_a_broken_line_is_named_with_the_remedy(store: Path) -> None:
    lines = store.read_bytes().splitlines(keepends=True)
    lines[3] = lines[3].replace(b'"text":"', b'"text":7,"x":"', 1)
    store.write_bytes(b"".join(lines))
    with pytest.raises(ReferenceStoreError, match=r"line 4 is broken at initial\.text: .*delete the line"):
        ReferenceStore.open(store, WORLD)


def test_a_store_of_another_configuration_is_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ReferenceStoreError, match="build references for this configuration"):
        ReferenceStore.open(store, PocketWorld(seed=1))
    with pytest.raises(ReferenceStoreError, match="no reference file"):
        ReferenceStore.open(tmp_path / "nowhere.jsonl", WORLD)
    store.write_bytes(b"garbage\n")
    with pytest.raises(ReferenceStoreError, match="no header"):
        ReferenceStore.open(store, WORLD)


def test_actions_after_the_end_of_an_episode_are_an_error_of_the_list() -> None:
    task = WORLD.tasks("train")[0]
    actions = [*WORLD.game(task).walkthrough, "look"]
    with pytest.raises(ReferenceStoreError, match="goes on after the episode ended"):
        replay(WORLD.open(), task, actions, "test")


@pytest.mark.parametrize("notes", [b"milk, eggs", b"milk\neggs", b'{"format": 1}\n{"half'])
def test_a_foreign_file_is_refused_and_not_touched(notes: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(notes)
    with pytest.raises(ReferenceStoreError, match="not a reference file"):
        build_store(WORLD, "walkthrough", WORLD.tasks("train"), path)
    assert path.read_bytes() == notes


def test_a_header_that_lost_its_end_is_written_again(store: Path) -> None:
    whole = store.read_bytes()
    store.write_bytes(whole.partition(b"\n")[0])
    build_store(WORLD, "walkthrough", WORLD.tasks("train"), store)
    assert store.read_bytes() == whole


@pytest.mark.parametrize("place", ["/proc/x/y", "/dev/full", "."])
def test_a_place_that_cannot_be_written_is_named(place: str, tmp_path: Path) -> None:
    path = tmp_path if place == "." else Path(place)
    with pytest.raises((RunFolderError, ReferenceStoreError), match=str(path)):
        build_store(WORLD, "walkthrough", WORLD.tasks("train"), path)
