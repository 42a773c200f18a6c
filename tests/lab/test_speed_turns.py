"""`actfirst bench turns`: what a turn costs the process of a run, without engines."""

from __future__ import annotations

from pathlib import Path

import pytest

from actfirst.errors import ConfigError
from actfirst.lab.speed.turns import TurnCost, measure, rows
from tests.support.tiny_run import tiny_config


def test_the_rollouts_of_a_recipe_are_played_and_their_parts_are_told_apart(tmp_path: Path) -> None:
    config = tiny_config(tmp_path, "pool.kind=inline", "rollout.generation.drafts=true")
    (found,) = measure(config, (0,), 2, lambda done, of, what: None)
    assert found.turns == 2 * 4 * 4  # rounds, tasks, turns of each: nobody solves a task by chance in four
    assert found.requests > 1
    assert found.prompt > 100
    assert len(found.seconds) == len(found.prompts) == len(found.environments) == 2
    for whole, prompts, environments in zip(found.seconds, found.prompts, found.environments, strict=True):
        assert whole > prompts + environments > 0


def test_environments_of_other_processes_are_refused(tmp_path: Path) -> None:
    config = tiny_config(tmp_path, "pool.kind=processes")
    with pytest.raises(ConfigError, match=r"set pool\.kind=inline"):
        measure(config, (0,), 1, lambda done, of, what: None)


def test_what_a_turn_costs_is_also_how_many_there_can_be() -> None:
    alone, two = rows(
        [
            TurnCost(0, 640, 1.1, 264, (0.001, 0.002, 0.004), (0.001,) * 3, (0.0005,) * 3),
            TurnCost(2, 640, 1.1, 0, (0.0005,) * 3, (0.0,) * 3, (0.0,) * 3),
        ]
    )
    assert alone["run's process (ms a turn)"] == "2.00 (1.00-4.00)"
    assert alone["turns / s at most"] == "500"
    assert two["turns / s at most"] == "2000"
    assert two["of that prompts"] == ""
