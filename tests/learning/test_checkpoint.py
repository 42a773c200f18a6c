"""Checkpoints survive kills, full disks and bit rot, and a resumed learner continues bit by bit."""

from __future__ import annotations

import errno
import itertools
import os
import pickle
import random
import resource
import shutil
import signal
import sys
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoTokenizer

from actfirst.errors import CheckpointError
from actfirst.learning import checkpoint as checkpoints
from actfirst.learning.checkpoint import latest_valid, load, prune, save, take, write
from actfirst.learning.rng import capture_rng, restore_rng
from actfirst.learning.update import Learner
from actfirst.runs.manifest import latest, seal
from actfirst.runs.run_folder import RunFolder
from actfirst.training.open import stored_state
from tests.learning.making import learning, make_samples, plain_model

FILE_OPERATIONS = ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir")
OPTIONS = learning(learning_rate=1e-3)
STATE = {"cursor": 7, "ledger": {"trained": 3, "discarded": {"stale": 1}}, "offsets": [1, 2.5, None, "x"]}


def trained(folder: Path, updates: int) -> Learner:
    learner = Learner(folder, OPTIONS)
    for seed in range(updates):
        learner.update(make_samples(4, seed=seed))
    return learner


@pytest.fixture
def two(qwen3: Path, tmp_path: Path) -> Path:
    """A folder with the checkpoints of updates 1 and 2."""
    folder, learner = tmp_path / "checkpoints", trained(qwen3, 1)
    save(folder, learner, (), {"at": 1})
    learner.update(make_samples(4, seed=1))
    save(folder, learner, (), {"at": 2})
    return folder


def test_round_trip(checkpoint: Path, tmp_path: Path) -> None:
    learner, buffer = trained(checkpoint, 2), make_samples(5, seed=9)
    path = save(tmp_path, learner, buffer, STATE)
    assert path == tmp_path / "step-000002" == latest(tmp_path)
    loaded = load(path)
    assert (loaded.step, loaded.samples, loaded.trainer_state) == (2, tuple(buffer), STATE)
    state = learner.state()
    assert loaded.learner.version == 2
    for ours, theirs in (
        (state.weights, loaded.learner.weights),
        (state.optimizer, loaded.learner.optimizer),
    ):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_the_model_folder_is_a_hugging_face_checkpoint(checkpoint: Path, tmp_path: Path) -> None:
    learner = trained(checkpoint, 1)
    folder = load(save(tmp_path, learner, (), {})).model
    weights = learner.weights()
    reopened = plain_model(folder).state_dict()
    assert reopened.keys() == weights.keys()
    assert all(torch.equal(value, reopened[name]) for name, value in weights.items())
    assert AutoTokenizer.from_pretrained(folder).encode("a cup") == AutoTokenizer.from_pretrained(
        checkpoint
    ).encode("a cup")
    assert (folder / "generation_config.json").is_file()


@pytest.mark.parametrize("from_model_folder", [False, True])
def test_a_resumed_learner_continues_bit_by_bit(
    checkpoint: Path, tmp_path: Path, from_model_folder: bool
) -> None:
    learner = trained(checkpoint, 2)
    stored = load(save(tmp_path, learner, (), {}))
    resumed = Learner(stored.model if from_model_folder else checkpoint, OPTIONS)
    resumed.restore(stored.learner)
    for seed in (5, 6):
        learner.update(make_samples(4, seed=seed))
        resumed.update(make_samples(4, seed=seed))
    assert resumed.version == learner.version == 4
    assert all(torch.equal(value, resumed.weights()[name]) for name, value in learner.weights().items())


def test_a_copy_that_is_written_after_the_next_update_is_of_the_moment_when_it_was_taken(
    checkpoint: Path, tmp_path: Path
) -> None:
    learner = trained(checkpoint, 2)
    at_once = load(save(tmp_path / "at once", learner, (), STATE)).learner
    taken = take(learner, (), STATE, copy=True)
    learner.update(make_samples(4, seed=5))
    later = load(write(tmp_path / "later", taken))
    assert (later.step, later.trainer_state) == (2, STATE)
    for ours, theirs in (
        (at_once.weights, later.learner.weights),
        (at_once.optimizer, later.learner.optimizer),
    ):
        assert ours.keys() == theirs.keys()
        assert all(torch.equal(value, theirs[name]) for name, value in ours.items())


def test_a_learner_that_never_updated_can_be_saved_and_resumed(qwen3: Path, tmp_path: Path) -> None:
    stored = load(save(tmp_path, Learner(qwen3, OPTIONS), (), {}))
    resumed, fresh = Learner(qwen3, OPTIONS), Learner(qwen3, OPTIONS)
    resumed.restore(stored.learner)
    for learner in (resumed, fresh):
        learner.update(make_samples(2))
    assert all(torch.equal(value, resumed.weights()[name]) for name, value in fresh.weights().items())


def test_a_checkpoint_of_another_model_is_refused(qwen3: Path, llama: Path) -> None:
    with pytest.raises(CheckpointError, match="another model"):
        Learner(llama, OPTIONS).restore(Learner(qwen3, OPTIONS).state())


def test_generators_continue_where_they_were(qwen3: Path, tmp_path: Path) -> None:
    def draws() -> tuple[float, float, float]:
        return random.gauss(0, 1), float(np.random.standard_normal()), float(torch.randn(()))

    before = capture_rng()
    try:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        draws()  # leaves half-used pairs of Gaussians behind, which are state, too
        path = save(tmp_path, Learner(qwen3, OPTIONS), (), {})
        expected = draws()
        draws()
        restore_rng(load(path).rng)
        assert draws() == expected
    finally:
        restore_rng(before)


def test_a_save_at_the_same_step_replaces_the_old_one(qwen3: Path, tmp_path: Path) -> None:
    learner = trained(qwen3, 1)
    save(tmp_path, learner, (), {"try": 1})
    assert load(save(tmp_path, learner, (), {"try": 2})).trainer_state == {"try": 2}
    assert [path.name for path in tmp_path.iterdir()] == ["step-000001"]


def test_latest_of_a_folder_without_checkpoints_is_none(tmp_path: Path) -> None:
    assert latest(tmp_path) is latest(tmp_path / "missing") is None
    assert latest_valid(tmp_path).checkpoint is None
    with pytest.raises(CheckpointError, match="is not a checkpoint"):
        load(tmp_path / "step-000001")


def test_leftovers_of_a_killed_write_are_ignored_and_removed_by_the_next_save(two: Path, qwen3: Path) -> None:
    shutil.copytree(two / "step-000002", two / ".writing-step-000003")
    shutil.copytree(two / "step-000002", two / ".removing-step-000000")
    assert latest(two) == two / "step-000002"
    save(two, trained(qwen3, 3), (), {})
    assert sorted(path.name for path in two.iterdir()) == ["step-000001", "step-000002", "step-000003"]


def test_leftovers_go_when_a_run_is_resumed_also_if_it_saves_nothing_more(tmp_path: Path) -> None:
    """A kill while the last checkpoints are pruned."""
    with RunFolder.create(tmp_path / "run", "") as folder:
        for name in (".removing-step-000001", ".writing-step-000002"):
            (folder.checkpoints / name / "model").mkdir(parents=True)
        stored_state(folder)
        assert list(folder.checkpoints.iterdir()) == []


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-10])


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize(
    "name",
    [
        "model/model.safetensors",
        "model/config.json",
        "training/optimizer.safetensors",
        "training/samples.npz",
        "training/state.json",
        "training/rng.json",
    ],
)
@pytest.mark.parametrize(
    ("damage", "fault"), [(truncate, "bytes instead of"), (flip, "sha256"), (Path.unlink, "missing")]
)
def test_a_damaged_file_is_named_and_the_checkpoint_before_it_is_used(
    two: Path, name: str, damage: Callable[[Path], None], fault: str
) -> None:
    damage(two / "step-000002" / name)
    with pytest.raises(CheckpointError, match=f"step-000002 is corrupt: {name} .*{fault}.*Delete that folder"):
        load(two / "step-000002")
    found = latest_valid(two)
    assert found.checkpoint is not None
    assert found.checkpoint.trainer_state == {"at": 1}
    assert len(found.rejected) == 1
    assert name in found.rejected[0]
    # By names and sizes alone a flipped byte cannot be seen; all else can.
    assert latest(two) == two / ("step-000002" if damage is flip else "step-000001")


class Bomb:
    """Unpickled, it creates a file."""

    def __init__(self, crater: Path) -> None:
        self.crater = crater

    def __reduce__(self) -> tuple[Callable[[Path], None], tuple[Path]]:
        return Path.touch, (self.crater,)


@pytest.mark.parametrize(
    "name", ["training/shards/.metadata", "training/adapters.safetensors", "model/extra.py"]
)
def test_a_file_that_the_manifest_does_not_list_is_refused_and_not_read(
    two: Path, tmp_path: Path, name: str
) -> None:
    crater = tmp_path / "crater"
    planted = two / "step-000002" / name
    planted.parent.mkdir(exist_ok=True)
    planted.write_bytes(pickle.dumps(Bomb(crater)))
    with pytest.raises(CheckpointError, match=rf"{name} is not listed in manifest\.json"):
        load(two / "step-000002")
    assert latest(two) == two / "step-000001"
    assert not crater.exists()


def test_shards_are_never_unpickled_even_where_the_manifest_lists_them(two: Path, tmp_path: Path) -> None:
    crater, shards = tmp_path / "crater", two / "step-000002" / "training" / "shards"
    shards.mkdir()
    (shards / ".metadata").write_bytes(pickle.dumps(Bomb(crater)))
    (two / "step-000002" / "manifest.json").unlink()
    seal(two / "step-000002")
    with pytest.raises(CheckpointError, match="would have to be unpickled"):
        _ = load(two / "step-000002").learner
    assert not crater.exists()


def test_a_listed_file_that_is_a_link_is_refused(two: Path, tmp_path: Path) -> None:
    state = two / "step-000002" / "training" / "state.json"
    shutil.move(state, tmp_path / "elsewhere.json")
    state.symlink_to(tmp_path / "elsewhere.json")
    with pytest.raises(CheckpointError, match=r"state\.json is not a plain file"):
        load(two / "step-000002")


@pytest.mark.parametrize(
    "content", [None, "", "{}", '{"format": 1, "files": [1]}', '{"format": 9, "files": {}}']
)
def test_a_missing_or_unreadable_manifest_makes_a_checkpoint_incomplete(two: Path, content: str | None) -> None:
    manifest = two / "step-000002" / "manifest.json"
    manifest.unlink() if content is None else manifest.write_text(content)
    assert latest(two) == two / "step-000001"
    with pytest.raises(CheckpointError, match=r"manifest\.json (is missing|cannot be read)"):
        load(two / "step-000002")


def test_prune_keeps_the_newest_complete_ones(qwen3: Path, tmp_path: Path) -> None:
    learner = Learner(qwen3, OPTIONS)
    for _ in range(4):
        learner.version += 1
        save(tmp_path, learner, (), {})
    truncate(tmp_path / "step-000004" / "training" / "rng.json")
    prune(tmp_path, keep=2)
    # The incomplete one is not counted among the kept, and is left for a look at it.
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000002", "step-000003", "step-000004"]


def test_prune_leaves_those_that_are_kept_for_good(qwen3: Path, tmp_path: Path) -> None:
    learner = Learner(qwen3, OPTIONS)
    for _ in range(5):
        learner.version += 1
        save(tmp_path, learner, (), {})
        prune(tmp_path, keep=1, also={1, 3, 9})
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-000001", "step-000003", "step-000005"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
@pytest.mark.parametrize("stage", ["save_file", "save_samples", "seal"])
def test_a_full_disk_is_one_clear_error_and_the_checkpoint_before_stays(
    two: Path, qwen3: Path, monkeypatch: pytest.MonkeyPatch, stage: str, number: int
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(number, "No space left on device")

    monkeypatch.setattr(checkpoints, stage, full)
    with pytest.raises(
        CheckpointError, match=r"step-000003 could not be written.*needs about .* MB.*make room"
    ):
        save(two, trained(qwen3, 3), (), {})
    assert sorted(path.name for path in two.iterdir()) == ["step-000001", "step-000002"]
    assert load(two / "step-000002").trainer_state == {"at": 2}


def save_again_and_again(
    model: Path, folder: Path, file_size_limit: int, killed_at: int, report: Connection
) -> None:
    """What a forked process does until it fails, or until it is killed at a file operation of the second checkpoint."""
    learner, buffer = Learner(model, OPTIONS), make_samples(50)
    operations = itertools.count(1)

    def count(event: str, _: object) -> None:
        if learner.version == 2 and event in FILE_OPERATIONS and next(operations) == killed_at:
            os.kill(os.getpid(), signal.SIGKILL)

    if killed_at:
        sys.addaudithook(count)
    if file_size_limit:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (file_size_limit, file_size_limit))
    try:
        while True:
            learner.version += 1
            save(folder, learner, buffer, {"at": learner.version})
    except CheckpointError as error:
        report.send(str(error))


def start(
    model: Path, folder: Path, *, file_size_limit: int = 0, killed_at: int = 0
) -> tuple[BaseProcess, Connection]:
    context = get_context("fork")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(
        target=save_again_and_again, args=(model, folder, file_size_limit, killed_at, theirs)
    )
    process.start()
    theirs.close()  # so that the end of the process ends our waiting
    return process, ours


@pytest.mark.parametrize("limit", [100, 100_000])  # the first or a later file does not fit
def test_a_write_that_really_fails_names_the_space_it_needs(qwen3: Path, tmp_path: Path, limit: int) -> None:
    process, report = start(qwen3, tmp_path, file_size_limit=limit)
    assert "step-000001 could not be written" in (message := report.recv())
    assert "needs about" in message
    process.join()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("operation", [1, 2, 5, 10, 15, 20])
def test_after_a_kill_at_any_moment_the_newest_checkpoint_is_whole(
    qwen3: Path, tmp_path: Path, operation: int
) -> None:
    process, _ = start(qwen3, tmp_path, killed_at=operation)
    process.join()
    assert process.exitcode == -signal.SIGKILL
    found = latest_valid(tmp_path)
    assert found.rejected == ()
    assert found.checkpoint is not None
    assert found.checkpoint.trainer_state == {"at": found.checkpoint.step}
    assert found.checkpoint.path == latest(tmp_path)
