"""References on disk: exact round trip, read when asked for, resumable, and clear about what is wrong."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import FrameType

import pytest

from actfirst.environments.pocket.kind import KIND as POCKET_KIND
from actfirst.environments.pocket.world import PocketWorld
from actfirst.errors import ReferenceStoreError, RunFolderError
from actfirst.records import Task
from actfirst.references.build.build import Plan, build_store
from actfirst.references.build.coverage import coverage
from actfirst.references.build.replay import replay
from actfirst.references.live import LiveReferences
from actfirst.references.store import Attempt, ReferenceStore, ReferenceWriter
from actfirst.runs.lock import RunLock

OPEN = partial(PocketWorld, train=12)
WORLD = OPEN()
TASKS = WORLD.tasks("train")
PLAN = Plan(("walkthrough",))
SETTINGS = {"name": "pocket", "seed": 0, "receptacles": (6, 9)}


@contextmanager
def counted_calls() -> Iterator[list[int]]:
    """How many lines of Python run inside."""
    count = [0]

    def trace(frame: FrameType, event: str, _: object) -> object:
        count[0] += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


def build(path: Path) -> None:
    build_store(POCKET_KIND, OPEN, PLAN, TASKS, path, SETTINGS)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "references.jsonl"
    build(path)
    return path


def without_times(path: Path) -> list[dict[str, object]]:
    """Without the headers at the end of builds, too: there is one more where a build was continued."""
    first, *lines = (json.loads(line) | {"seconds": 0, "chain": ""} for line in path.read_bytes().splitlines())
    return [first, *(line for line in lines if "format" not in line)]


def without_checksums(path: Path) -> list[bytes]:
    """The lines of a store as an older version wrote them, and put there."""
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    for line in lines:
        line.pop("chain")
    texts = [json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines]
    path.write_bytes(b"".join(texts[:1] + [text for text in texts[1:] if not text.startswith(b'{"format"')]))
    return path.read_bytes().splitlines(keepends=True)


def test_a_store_gives_back_exactly_what_was_written(store: Path) -> None:
    read, made = ReferenceStore.open(store, WORLD), LiveReferences(POCKET_KIND, WORLD, "walkthrough")
    assert len(read) == 12
    assert all(read.get(task) == made.get(task) for task in TASKS)
    assert read.get(Task("pocket/train/999999-pick", "train", "pick")) is None


def test_a_line_is_parsed_only_when_its_task_is_asked_for(store: Path) -> None:
    lines = without_checksums(store)
    lines[3] = lines[3].replace(b'"text":"', b'"text":7,"x":"', 1)
    store.write_bytes(b"".join(lines))
    read = ReferenceStore.open(store, WORLD)
    assert read.get(TASKS[0]) is not None
    with pytest.raises(
        ReferenceStoreError, match=r"line 4 is broken at reference\.initial\.text: .*delete the line"
    ):
        read.get(TASKS[2])


def test_lines_that_somebody_else_wrote_in_another_order_of_keys_are_read_too(store: Path) -> None:
    expected = [ReferenceStore.open(store, WORLD).get(task) for task in TASKS]
    header, *lines = (line.decode().rstrip() for line in without_checksums(store))
    turned = [json.dumps(dict(reversed(json.loads(line).items()))) for line in lines]
    store.write_text("\n".join([header, *turned]) + "\n")
    read = ReferenceStore.open(store, WORLD)
    assert [read.attempt(task.id) is not None for task in TASKS] == [True] * 12
    assert [read.get(task) for task in TASKS] == expected


def test_building_again_adds_only_what_is_missing_also_after_a_kill_in_the_middle_of_a_line(
    store: Path,
) -> None:
    whole = without_times(store)
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join(lines[:5]) + lines[5][:40])
    assert len(ReferenceStore.read(store)) == 4, "half a line is not read"
    with pytest.raises(
        ReferenceStoreError, match=r"has no end: .*`actfirst references build` adds what is missing"
    ):
        ReferenceStore.open(store, WORLD)
    build(store)
    assert without_times(store) == whole
    assert len(ReferenceStore.open(store, WORLD)) == 12


@pytest.mark.parametrize("damage", ["flipped", "swapped", "missing", "half"])
def test_a_damaged_store_is_refused_with_the_line(store: Path, damage: str) -> None:
    lines = store.read_bytes().splitlines(keepends=True)
    match damage:
        case "flipped":
            lines[4] = lines[4].replace(b"cabinet", b"Cabinet", 1).replace(b"drawer", b"Drawer", 1)
        case "swapped":  # the references of two tasks: each line is one that was written
            lines[4], lines[5] = lines[5], lines[4]
        case "missing":
            del lines[4]
        case "half":
            lines = lines[:7]
    store.write_bytes(b"".join(lines))
    fault = "has no end" if damage == "half" else r"line 5 is not the one.*keep its first 4 lines"
    with pytest.raises(ReferenceStoreError, match=fault):
        ReferenceStore.open(store, WORLD)


def test_a_store_of_an_older_version_is_read_and_continued_with_checksums(store: Path) -> None:
    expected = [ReferenceStore.open(store, WORLD).get(task) for task in TASKS]
    lines = without_checksums(store)
    store.write_bytes(b"".join(lines[:9]))
    assert len(ReferenceStore.open(store, WORLD)) == 8
    build(store)
    assert [ReferenceStore.open(store, WORLD).get(task) for task in TASKS] == expected
    store.write_bytes(store.read_bytes().replace(lines[3], lines[2]))
    with pytest.raises(ReferenceStoreError, match="line 10 is not the one"):  # the first one with a checksum
        ReferenceStore.open(store, WORLD)


def test_adding_to_a_store_costs_the_same_however_much_is_in_it(tmp_path: Path) -> None:
    """Counted: numbers of lines that are looked at while one is added."""
    writer = ReferenceWriter(tmp_path / "some.jsonl", WORLD)
    looked: list[int] = []
    for number in range(400):
        with counted_calls() as calls:
            writer.add(Attempt(f"task-{number}", "train", "pick", ("gold",), reason="none"))
        looked.append(calls[0])
    writer.close()
    assert looked[-1] <= 1.5 * looked[10]


def test_the_last_line_of_a_task_counts(store: Path) -> None:
    before = ReferenceStore.open(store, WORLD).attempt(TASKS[3].id)
    assert before is not None
    writer = ReferenceWriter(store, WORLD)
    writer.add(replace(before, candidates=77))
    assert writer.store.attempt(TASKS[3].id) == replace(before, candidates=77), "known to the writer at once"
    writer.close()
    read = ReferenceStore.open(store, WORLD)
    assert read.attempt(TASKS[3].id) == replace(before, candidates=77)
    assert len(read.task_ids()) == len(read) == 12


def test_a_task_without_a_reference_is_kept_with_its_reason(tmp_path: Path) -> None:
    writer = ReferenceWriter(tmp_path / "some.jsonl", WORLD)
    attempt = Attempt(TASKS[0].id, "train", "pick", ("gold",), reason='says "reference":{ no')
    writer.add(attempt)
    writer.close()
    read = ReferenceStore.open(tmp_path / "some.jsonl", WORLD)
    assert read.get(TASKS[0]) is None
    assert (len(read), read.attempt(TASKS[0].id)) == (0, attempt)


def test_a_store_of_another_configuration_is_refused_and_the_message_says_what_differs(store: Path) -> None:
    other = PocketWorld(seed=1, train=12)
    with pytest.raises(ReferenceStoreError, match=r"environment\.seed is 0 there and 1 here; build references"):
        ReferenceStore.open(store, other, {**SETTINGS, "seed": 1})
    with pytest.raises(ReferenceStoreError, match=r"split train had 12 tasks there and has 5 here"):
        ReferenceStore.open(store, PocketWorld(seed=1, train=5), SETTINGS)
    with pytest.raises(ReferenceStoreError, match="settings are the same, but the files or the simulator"):
        ReferenceStore.open(store, other, SETTINGS)


def test_settings_that_do_not_change_the_fingerprint_do_not_matter(store: Path) -> None:
    assert (
        len(ReferenceStore.open(store, PocketWorld(train=3, turn_limit=9), {"seed": 0, "turn_limit": 9})) == 12
    )


def test_what_is_no_store_is_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(ReferenceStoreError, match="no reference file"):
        ReferenceStore.open(tmp_path / "nowhere.jsonl", WORLD)
    store.write_bytes(b'{"format":"actfirst-references-1","world":"pocket","fingerprint":"x"}\n')
    with pytest.raises(ReferenceStoreError, match="has the format actfirst-references-1"):
        ReferenceStore.open(store, WORLD)
    store.write_bytes(b"garbage\n")
    with pytest.raises(ReferenceStoreError, match="not a header"):
        ReferenceStore.open(store, WORLD)


def test_actions_after_the_end_of_an_episode_are_an_error_of_the_list() -> None:
    actions = [*WORLD.game(TASKS[0]).walkthrough, "look"]
    with pytest.raises(ReferenceStoreError, match="goes on after the episode ended"):
        replay(WORLD.open(), TASKS[0], actions, "test")


@pytest.mark.parametrize("notes", [b"milk, eggs", b"milk\neggs", b'{"format": 1}\n{"half'])
def test_a_foreign_file_is_refused_and_not_touched(notes: bytes, tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(notes)
    with pytest.raises(ReferenceStoreError, match="not a reference file"):
        build(path)
    assert path.read_bytes() == notes


def test_a_header_that_lost_its_end_is_written_again(store: Path) -> None:
    whole = without_times(store)
    store.write_bytes(store.read_bytes().partition(b"\n")[0])
    build(store)
    assert without_times(store) == whole


@pytest.mark.parametrize("place", ["/proc/x/y", "."])
def test_a_place_that_cannot_be_written_is_named(place: str, tmp_path: Path) -> None:
    path = tmp_path if place == "." else Path(place)
    with pytest.raises((RunFolderError, ReferenceStoreError), match=str(path)):
        build(path)


@pytest.mark.parametrize("left", ["nothing", "half a line"])
def test_what_another_build_wrote_just_before_the_lock_is_kept(
    left: str, store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other one begins a new file, or cuts half a line and goes on; it ends when this one is about to lock."""
    whole = without_times(store)
    store.write_bytes(store.read_bytes()[:-40] if left == "half a line" else b"")
    lock = RunLock.take_file

    def other_first(path: Path) -> RunLock:
        monkeypatch.setattr(RunLock, "take_file", lock)
        build(path)
        return lock(path)

    monkeypatch.setattr(RunLock, "take_file", other_first)
    ReferenceWriter(store, WORLD, SETTINGS).close()
    assert without_times(store) == whole


def test_another_world_that_was_begun_just_before_the_lock_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = RunLock.take_file

    def other_first(path: Path) -> RunLock:
        monkeypatch.setattr(RunLock, "take_file", lock)
        ReferenceWriter(path, PocketWorld(seed=1), SETTINGS).close()
        return lock(path)

    monkeypatch.setattr(RunLock, "take_file", other_first)
    with pytest.raises(ReferenceStoreError, match="would not replay"):
        ReferenceWriter(tmp_path / "new.jsonl", WORLD, SETTINGS)


class TestAStoreThatIsContinuedWithMoreTasks:
    LARGER = PocketWorld(train=30)

    def test_counts_those_of_the_largest_world(self, store: Path) -> None:
        ReferenceWriter(store, self.LARGER, SETTINGS | {"train_tasks": 30}).close()
        read = ReferenceStore.read(store)
        assert (read.header.tasks["train"], read.header.configuration["train_tasks"]) == (30, 30)
        assert (len(read), coverage(read).tasks) == (12, 30)
        size = store.stat().st_size
        ReferenceWriter(store, WORLD, SETTINGS).close()
        assert store.stat().st_size == size, "a smaller world says nothing new"
        assert ReferenceStore.open(store, WORLD).header.tasks["train"] == 30

    def test_can_be_killed_while_it_says_so(self, store: Path) -> None:
        before = store.stat().st_size
        ReferenceWriter(store, self.LARGER, SETTINGS).close()
        for length in range(before, store.stat().st_size, 50):
            half = store.with_name("half.jsonl")
            half.write_bytes(store.read_bytes()[:length])
            assert ReferenceStore.read(half).header.tasks["train"] == 12
            ReferenceWriter(half, self.LARGER, SETTINGS).close()
            assert half.read_bytes() == store.read_bytes()

    def test_lines_after_it_are_read_and_named_by_their_number(self, store: Path) -> None:
        build_store(
            POCKET_KIND,
            partial(PocketWorld, train=14),
            PLAN,
            PocketWorld(train=14).tasks("train"),
            store,
            SETTINGS,
        )
        assert len(ReferenceStore.read(store)) == 14
        lines = store.read_bytes().splitlines(keepends=True)
        lines[15] = lines[15].replace(
            b'"text":"', b'"text":7,"x":"', 1
        )  # after two headers: the end, more tasks
        store.write_bytes(b"".join(lines))
        with pytest.raises(ReferenceStoreError, match="line 16 is not the one"):
            list(ReferenceStore.read(store).attempts())


def test_a_world_of_other_tasks_that_are_no_more_still_leaves_none_uncounted(store: Path) -> None:
    """Recipes may name kinds of tasks: those of one and those of another are more than either."""
    writer = ReferenceWriter(store, WORLD)
    for number in range(100, 105):
        writer.add(Attempt(f"pocket/train/{number:06d}-pick", "train", "pick", ("gold",), reason="none"))
    writer.close()
    assert coverage(ReferenceStore.read(store)).tasks == 17


def test_two_builds_do_not_write_one_file_at_the_same_time(store: Path) -> None:
    writer = ReferenceWriter(store, WORLD)
    with pytest.raises(RunFolderError, match="already open for writing"):
        ReferenceWriter(store, WORLD)
    writer.close()
    ReferenceWriter(store, WORLD).close()
