"""`actfirst verify`: whatever is not as it was written is found, named, and ends with exit code 1."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actfirst.environments.pocket.kind import KIND
from actfirst.environments.pocket.world import PocketWorld
from actfirst.references.build.build import Plan, build_store
from actfirst.runs import files
from actfirst.runs.chain import ChainedFile
from actfirst.training.open import train
from tests.cli.runner import run as command
from tests.support.tiny_run import tiny_config


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of three updates, with checkpoints of updates 2 and 3."""
    folder = tmp_path_factory.mktemp("whole")
    config = tiny_config(
        folder, "run.updates=3", "rollout.tasks_per_batch=2", "learner.batch_size=3", "environment.turn_limit=3"
    )
    train(config, folder / "run")
    return folder / "run"


@pytest.fixture
def run(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def test_a_run_that_nothing_happened_to_is_whole(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = command(capsys, "verify", str(run), "--json", str(run.parent / "out.json"))
    assert (shown.code, "everything is as it was written" in shown.out) == (0, True)
    written = json.loads((run.parent / "out.json").read_text())
    assert written["whole"]
    assert written["things"][0]["checked"] == {"checkpoints": 2, "updates": 3, "samples": 9}


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def rewrite(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change lines and give them new checksums, as a bug of the program would."""
    records = list(files.read_json_lines(path))
    path.unlink()
    for record in records:
        change(record)
    ChainedFile.at_end(path).append("".join(map(files.json_line, records)))


def lose_one(record: dict[str, Any]) -> None:
    if record["type"] == "update":
        record["sample_ids"] = record["sample_ids"][:2]


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "weights": (lambda run: flip(run / "checkpoints/step-000002/model/model.safetensors"), "sha256 differs"),
    "optimiser": (lambda run: flip(run / "checkpoints/step-000003/training/optimizer.safetensors"), "sha256"),
    "a stranger": (lambda run: (run / "checkpoints/step-000003/x.py").touch(), "x.py is not listed"),
    "a byte of the metrics": (lambda run: flip(run / "metrics.jsonl"), "metrics.jsonl: line"),
    "a byte of the episodes": (lambda run: flip(run / "episodes.jsonl"), "episodes.jsonl: line"),
    "no metrics": (
        lambda run: (run / "metrics.jsonl").unlink(),
        "metrics.jsonl: is missing, though a checkpoint",
    ),
    "the last episode": (
        lambda run: (run / "episodes.jsonl").write_bytes(
            b"".join((run / "episodes.jsonl").read_bytes().splitlines(keepends=True)[:-1])
        ),
        "though a checkpoint saw",
    ),
    "a lost sample": (lambda run: rewrite(run / "metrics.jsonl", lose_one), "the updates so far name 2"),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_is_found_and_named(run: Path, damage: str, capsys: pytest.CaptureFixture[str]) -> None:
    harm, said = DAMAGES[damage]
    harm(run)
    shown = command(capsys, "verify", str(run))
    assert shown.code == 1
    assert said in shown.out
    assert "Traceback" not in shown.out + shown.err


def test_a_sample_that_was_trained_twice_is_found(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = next(line for line in files.read_json_lines(run / "metrics.jsonl") if line["type"] == "update")

    def again(record: dict[str, Any]) -> None:
        if record["type"] == "update":
            record["sample_ids"] = first["sample_ids"]

    rewrite(run / "metrics.jsonl", again)
    shown = command(capsys, "verify", str(run))
    assert shown.code == 1
    assert "was trained on 3 times" in shown.out


def test_a_checkpoint_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    checkpoint = run / "checkpoints" / "step-000003"
    assert command(capsys, "verify", str(checkpoint)).code == 0
    (checkpoint / "training" / "state.json").write_text("{}")
    shown = command(capsys, "verify", str(checkpoint))
    assert shown.code == 1
    assert "state.json has 2 bytes" in shown.out


def test_references_are_read_and_with_a_recipe_replayed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    store, world = tmp_path / "store.jsonl", partial(PocketWorld, train=5, turn_limit=30)
    build_store(KIND, world, Plan(("walkthrough",)), world().tasks("train"), store)
    shown = command(capsys, "verify", str(store), "--recipe", "pocket")
    assert "5 references, 5 replayed" in shown.out
    assert shown.code == 0
    lines = store.read_bytes().splitlines(keepends=True)
    store.write_bytes(b"".join(lines[:4]))
    assert "has no end" in command(capsys, "verify", str(store)).out
    store.write_bytes(b"".join([*lines[:2], *lines[3:]]))
    shown = command(capsys, "verify", str(store))
    assert (shown.code, "line 3 is not the one" in shown.out) == (1, True)


def test_what_is_none_of_these_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shown = command(capsys, "verify", str(tmp_path))
    assert shown.code == 2
    assert "name one of these" in shown.err


@pytest.mark.parametrize("order", [("eval",), ("report",), ("train", "--resume", "--run")])
def test_other_commands_say_what_they_found(
    run: Path, order: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    flip(run / "episodes.jsonl")
    more = ("--tasks", "1") if order == ("eval",) else ()
    shown = command(capsys, *order, str(run), *more)
    assert "episodes.jsonl: line" in shown.err
    if order[0] != "report":
        assert shown.code == 0


def test_eval_refuses_corrupt_weights(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Flipped exponents change numbers and nothing else: only the checksum knows."""
    flip(run / "checkpoints/step-000003/model/model.safetensors")
    shown = command(capsys, "eval", str(run), "--tasks", "1")
    assert shown.code == 1
    assert "model/model.safetensors does not have the content that was written" in shown.err
