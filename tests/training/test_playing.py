"""A command that plays a model uses every engine of its recipe (paper, Table "Evaluation hyperparameters")."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.errors import ConfigError
from actfirst.evaluate.protocol import choose_tasks, evaluate
from actfirst.runs.evaluations import Evaluation
from actfirst.training.playing import engine_settings, engines_of, evaluate_model, in_play, open_player
from tests.support.tiny_run import tiny_config

SEVERAL = ("runtime.kind=ray", "runtime.cpus=0.5", "evaluation.engines=2", "evaluation.runners=1")


@pytest.mark.parametrize(
    ("batch", "engines", "runners", "expected"),
    [(64, 8, 8, 64), (64, 8, 4, 32), (64, 4, 8, 32), (64, 1, 0, 64)],
)
def test_a_batch_is_played_by_so_many_runners_of_each_engine(
    batch: int, engines: int, runners: int, expected: int
) -> None:
    config = resolve("pocket", [f"evaluation.batch_tasks={batch}", f"evaluation.runners={runners}"])
    assert in_play(config.evaluation, engines) == expected


def test_a_command_has_the_engines_of_training_unless_the_recipe_names_a_number() -> None:
    on_ray = ["runtime.kind=ray", "runtime.rollout_engines=3"]
    assert engines_of(resolve("pocket")) == 1
    assert engines_of(resolve("pocket", on_ray)) == 3
    assert engines_of(resolve("pocket", [*on_ray, "evaluation.engines=5"])) == 5


def test_the_share_of_memory_is_the_engine_s_own_unless_evaluation_has_one() -> None:
    plain, own = resolve("pocket"), resolve("pocket", ["evaluation.memory=0.82"])
    assert engine_settings(plain) is plain.engine
    assert engine_settings(own).vllm.gpu_memory_utilization == 0.82
    assert own.engine.vllm.gpu_memory_utilization == plain.engine.vllm.gpu_memory_utilization


def test_several_engines_need_several_processes() -> None:
    with pytest.raises(ConfigError, match=r'evaluation\.engines.*set runtime\.kind = "ray"'):
        resolve("pocket", ["evaluation.engines=2"])


@pytest.mark.slow
def test_two_engines_find_what_one_finds_and_both_are_at_work(tmp_path: Path) -> None:
    """The same tasks and seeds, so the same outcomes."""
    pytest.importorskip("ray")
    several, one = tiny_config(tmp_path, *SEVERAL), tiny_config(tmp_path)
    student = Path(several.models.student)

    async def play() -> tuple[Evaluation, list[int]]:
        from actfirst.training.ray.fleet import Fleet

        async with open_player(several, student) as (stage, player):
            fleet = player.policy.engine
            assert isinstance(fleet, Fleet)
            while len(fleet.actors) < 2:  # noqa: ASYNC110 (nothing tells)
                await asyncio.sleep(0.05)
            tasks = choose_tasks(stage.world, ["seen"], 4)
            found = await evaluate(player, tasks, several.evaluation.seeds, 4)
            return found, [slot.stats.requests for slot in fleet._slots]

    found, requests = asyncio.run(play())
    assert min(requests) > 0
    for config in (several, one):
        assert asyncio.run(evaluate_model(config, student, lambda done, of: None)).overall == found.overall
