"""Killed with SIGKILL anywhere, a run that compares groups resumes with whole groups and ends bit for bit as an
uninterrupted one: the same samples, losses and weights."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actfirst.lab.torture.troubles import Kill
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import read_episodes, read_metrics
from tests.support import even_tokens
from tests.support.killing import ANY, KILLED, Tally, Trouble, train
from tests.support.tiny_run import overrides

KILLS = 20
UPDATES, TASKS, GROUP = 3, 2, 3
GIGPO = (
    f"run.updates={UPDATES}",
    f"rollout.tasks_per_batch={TASKS}",
    f"rollout.group_size={GROUP}",
    "methods.gigpo.invalid=inadmissible",
    "environment.turn_limit=8",
    "environment.train_tasks=40",
    "learner.batch_size=16",
    "evaluation.at_start=false",
    "evaluation.at_end=false",
    "evaluation.every=0",
    "checkpoint.every=2",
    *even_tokens.ALONE,
)


@dataclass(frozen=True)
class GroupRun:
    """A run that nothing happened to, how often it touches files, and how to have it again."""

    folder: Path
    touches: int
    arguments: tuple[str, ...]
    before: tuple[Trouble, ...]

    @classmethod
    def made(cls, folder: Path, arguments: tuple[str, ...], *before: Trouble) -> GroupRun:
        run, tally = folder / "run", folder / "tally"
        assert train([*arguments, "--run", str(run)], *before, Tally(tally)) == 0
        return cls(run, tally.stat().st_size, arguments, before)

    def begin(self, run: Path, kill: Kill) -> int | None:
        return train([*self.arguments, "--run", str(run)], *self.before, kill)

    def resume(self, run: Path, *kill: Kill) -> int | None:
        return train(["--run", str(run), "--resume"], *self.before, *kill)

    def assert_ends_like_this(self, run: Path) -> None:
        assert learned(run) == learned(self.folder)
        assert weights(run) == weights(self.folder)
        members = Counter((line["batch"], line["task"]["id"]) for line in read_episodes(run))
        assert members == dict.fromkeys(members, GROUP)
        assert len(members) == TASKS * len([line for line in read_metrics(run) if line["type"] == "batch"])


def learned(run: Path) -> list[tuple[Any, ...]]:
    keys = ("update", "sample_ids", "loss", "grad_norm", "ledger")
    return [tuple(line[key] for key in keys) for line in read_metrics(run) if line["type"] == "update"]


def weights(run: Path) -> bytes:
    return (open_run(run).checkpoints()[-1].model / "model.safetensors").read_bytes()


@pytest.fixture(scope="module")
def by_reward_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> GroupRun:
    """Random weights: quick, and with a reward of its own it always has something to learn."""
    folder = tmp_path_factory.mktemp("even-tokens")
    small = ("environment.turn_limit=2", "rollout.generation.response_limit=24", "learner.kl_weight=0.1")
    settings = overrides(folder, *even_tokens.GROUPS, *small, *even_tokens.ALONE)
    return GroupRun.made(folder, ("pocket", *settings), even_tokens.register)


@pytest.mark.parametrize("share", [0.3, 0.7])
def test_a_killed_run_ends_as_an_uninterrupted_one(
    by_reward_of_its_own: GroupRun, tmp_path: Path, share: float
) -> None:
    whole, run = by_reward_of_its_own, tmp_path / "run"
    assert [line[0] for line in learned(whole.folder)] == [1, 2, 3]
    assert whole.begin(run, Kill(ANY, round(share * whole.touches))) == KILLED
    assert whole.resume(run) == 0
    whole.assert_ends_like_this(run)


@pytest.fixture(scope="module")
def gigpo(tmp_path_factory: pytest.TempPathFactory) -> GroupRun:
    """The recipe pocket-gigpo on the student that ships: rewards of the world, KL to where it began."""
    return GroupRun.made(tmp_path_factory.mktemp("gigpo"), ("pocket-gigpo", *GIGPO))


@pytest.mark.slow
@pytest.mark.parametrize("number", range(KILLS))
def test_gigpo_killed_at_a_random_point_ends_as_an_uninterrupted_one(
    gigpo: GroupRun, tmp_path: Path, number: int
) -> None:
    run = tmp_path / "run"
    points = random.Random(15).sample(range(1, gigpo.touches + 1), KILLS)
    assert gigpo.begin(run, Kill(ANY, points[number])) == KILLED
    begun = (run / "config.toml").is_file()
    assert (gigpo.resume(run) if begun else gigpo.begin(run, Kill(ANY, 0))) == 0
    gigpo.assert_ends_like_this(run)


@pytest.mark.slow
def test_gigpo_killed_again_and_again_ends_as_an_uninterrupted_one(gigpo: GroupRun, tmp_path: Path) -> None:
    """Until a resumed run reaches its end before its kill."""
    run, points = tmp_path / "run", random.Random(16)
    assert gigpo.begin(run, Kill(ANY, gigpo.touches // 2)) == KILLED
    for _ in range(KILLS):
        ended = gigpo.resume(run, Kill(ANY, points.randint(1, gigpo.touches)))
        if ended != KILLED:
            break
    assert ended == 0
    gigpo.assert_ends_like_this(run)
