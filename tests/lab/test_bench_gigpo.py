"""`actfirst bench gigpo`: known advantages are found again, and wrong ones are told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actfirst.errors import ConfigError
from actfirst.lab.bench_gigpo import TOLERANCE, compare_file

CASE = {
    "gamma": 0.95,
    "mode": "mean_norm",
    "similarity": None,
    "step_weight": 1.0,
    "epsilon": 1e-6,
    "steps": [
        {"task": "t", "trajectory": "a", "observation": "0", "reward": 0.0, "episode_reward": 10.0},
        {"task": "t", "trajectory": "a", "observation": "1", "reward": 10.0, "episode_reward": 10.0},
        {"task": "t", "trajectory": "b", "observation": "0", "reward": 0.0, "episode_reward": 0.0},
    ],
    "returns": [9.5, 10.0, 0.0],
    "groups": [5, 7, 5],
    "episode_over_steps": [10 / 3, 10 / 3, -20 / 3],
    "episode_over_trajectories": [5.0, 5.0, -5.0],
    "step": [4.75, 0.0, -4.75],
    "advantage_over_steps": [10 / 3 + 4.75, 10 / 3, -20 / 3 - 4.75],
}


def written(folder: Path, **changes: object) -> Path:
    path = folder / "cases.json"
    path.write_text(json.dumps([{**CASE, **changes}]), encoding="utf-8")
    return path


def test_a_case_worked_out_by_hand_agrees(tmp_path: Path) -> None:
    found = compare_file(written(tmp_path))
    assert (found.cases, found.steps) == (1, 3)
    assert found.worst < TOLERANCE


@pytest.mark.parametrize(
    ("key", "value"), [("step", [4.75, 0.1, -4.75]), ("groups", [0, 0, 0]), ("returns", [9.5])]
)
def test_what_differs_is_told(tmp_path: Path, key: str, value: object) -> None:
    assert compare_file(written(tmp_path, **{key: value})).worst > TOLERANCE


def test_another_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cases\.json is no file of cases: 0\.mode"):
        compare_file(written(tmp_path, mode="median"))
    with pytest.raises(ConfigError, match="cannot be read"):
        compare_file(tmp_path / "absent.json")
