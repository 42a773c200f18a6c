"""The discrete-event model of a run: each part by hand, the loop as a whole, and what the command says."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from actfirst.config.load import resolve
from actfirst.errors import ConfigError
from actfirst.lab.plan.advice import advise, next_part, shared_out
from actfirst.lab.plan.costs import Costs, fitted, latency_of
from actfirst.lab.plan.model import simulate
from actfirst.lab.plan.parts import Driver, EngineKind, PlannedEngine
from actfirst.lab.plan.work import Plan, PlannedTurn, Shape, episodes_of
from actfirst.lab.rollout.simulated import LatencyModel, run_in_virtual_time
from actfirst.models.shapes import NAMED
from actfirst.records import EngineStats
from actfirst.runs.episodes import EpisodeLine
from actfirst.training.open import train
from tests.cli.runner import run
from tests.support.episode_lines import episode, response, turn
from tests.support.tiny_run import overrides

LATENCY = LatencyModel(step=1.0, sequence=0.1, prefill=0.01, max_prefill=100)
KIND = EngineKind(LATENCY, cap=4)


async def ends(*work: Coroutine[Any, Any, Any]) -> list[float]:
    """When each piece of work was over."""
    loop = asyncio.get_running_loop()

    async def end(one: Coroutine[Any, Any, Any]) -> float:
        await one
        return loop.time()

    return list(await asyncio.gather(*map(end, work)))


async def later(seconds: float, engine: PlannedEngine, prompt: int, tokens: int, *, fast: bool = False) -> int:
    await asyncio.sleep(seconds)
    return await engine.ask(prompt, tokens, fast=fast)


class TestEngine:
    def test_a_prompt_gives_its_first_token_in_the_step_that_completes_it(self) -> None:
        async def one() -> None:
            engine = PlannedEngine(KIND)
            assert await ends(engine.ask(10, 3)) == [pytest.approx(1.2 + 2 * 1.1)]
            assert engine.busy == pytest.approx(3.4)

        run_in_virtual_time(one())

    def test_a_request_joins_at_the_end_of_the_step_under_way(self) -> None:
        async def two() -> None:
            engine = PlannedEngine(KIND)
            first, second = await ends(engine.ask(10, 10), later(1.5, engine, 10, 1))
            assert second == pytest.approx(1.2 + 1.1 + 1.3)  # the step of 1.2 to 2.3 was under way
            assert first == pytest.approx(3.6 + 7 * 1.1)

        run_in_virtual_time(two())

    def test_no_more_than_the_cap_run_and_fast_ones_go_first(self) -> None:
        async def three() -> None:
            engine = PlannedEngine(replace(KIND, cap=1, fast_first=True))
            full, waiting, fast = await ends(
                engine.ask(0, 2), engine.ask(0, 1), later(0.5, engine, 0, 1, fast=True)
            )
            assert (full, fast, waiting) == pytest.approx((2.2, 3.3, 4.4))

        run_in_virtual_time(three())

    @pytest.mark.parametrize(("drains", "held"), [(True, 0.7 + 1.1 + 2.0), (False, 2.0)])
    def test_new_weights_wait_for_what_runs_or_stop_it(self, drains: bool, held: float) -> None:
        async def swap() -> None:
            engine = PlannedEngine(replace(KIND, drains=drains, install=2.0))

            async def announce() -> None:
                await asyncio.sleep(0.4)
                engine.announce(1)

            async def old() -> int:
                return await engine.ask(0, 2)

            async def new() -> int:
                return await later(0.5, engine, 0, 1)

            running, asked, _ = await asyncio.gather(old(), new(), announce())
            assert (running, asked) == (0, 1)  # the version on which each began
            now = asyncio.get_running_loop().time()
            assert now == pytest.approx(2.2 + 2.0 + 1.1 if drains else 1.1 + 2.0 + 1.2)
            assert engine.held == pytest.approx(held)

        run_in_virtual_time(swap())


def test_a_driver_makes_one_call_after_the_other() -> None:
    async def calls() -> None:
        driver = Driver()
        spent = (driver.spend(0.5), driver.spend(1.0), driver.spend(0.5))
        assert await ends(*spent) == pytest.approx([0.5, 1.5, 2.0])
        assert driver.busy == pytest.approx(2.0)

    run_in_virtual_time(calls())


COSTS = Costs(
    engine=EngineKind(LatencyModel(1.0, 0.0, 0.0), cap=100),
    teacher=EngineKind(LatencyModel(2.0, 0.0, 0.0), cap=100),
    token=0.01,
    update=0.5,
    transfer=0.25,
    request=0.0,
    prepare=0.0,
    relayed=0.0,
    environment=3.0,
    checkpoint=10.0,
)
PLAN = Plan(
    tasks=2,
    samples=4,
    max_lag=1,
    inline=False,
    budget=None,
    scored=True,
    overlap=False,
    checkpoint_every=1000,
    engines=1,
    teachers=1,
    ranks=1,
)
TURN = PlannedTurn(prompt=90, fast=(1,), full=10)
EPISODES = ((TURN, TURN),)


class TestLoop:
    def test_an_update_waits_for_its_rollouts_its_learner_and_its_weights(self) -> None:
        found = simulate(PLAN, COSTS, EPISODES, updates=3, warm_up=1)
        # The last response begins after one fast action and one step of the environment; its score takes a step.
        assert found.stages["rollout"] == pytest.approx(4.0 + 10.0 + 2.0)
        assert found.stages["update"] == pytest.approx(0.5 + 0.01 * 4 * 100)
        assert found.stages["sync"] == pytest.approx(0.25)
        assert found.seconds == pytest.approx(16.0 + 4.5 + 0.25)
        assert found.generated == 4

    def test_what_overlaps_takes_as_long_as_the_longer_of_both(self) -> None:
        found = simulate(replace(PLAN, overlap=True), COSTS, EPISODES, updates=4, warm_up=2)
        assert found.seconds == pytest.approx(max(16.0, 4.75), abs=1.1)  # an engine drains for a step at most

    def test_think_then_act_waits_for_every_response(self) -> None:
        found = simulate(replace(PLAN, inline=True), COSTS, EPISODES, updates=2, warm_up=1)
        assert found.stages["rollout"] == pytest.approx(2 * (10.0 + 3.0))

    def test_only_admitted_responses_are_generated(self) -> None:
        found = simulate(replace(PLAN, budget=2, samples=2), COSTS, EPISODES, updates=4, warm_up=1)
        assert found.generated == 2

    def test_two_ranks_halve_the_tokens_and_a_rank_without_a_sequence_is_told(self) -> None:
        two = simulate(replace(PLAN, ranks=2), COSTS, EPISODES, updates=2, warm_up=1)
        many = simulate(replace(PLAN, ranks=6), COSTS, EPISODES, updates=2, warm_up=1)
        assert two.stages["update"] == pytest.approx(0.5 + 0.01 * 200)
        assert (two.idle_ranks, many.idle_ranks) == (0, 2)
        assert many.stages["update"] == pytest.approx(0.5 + 0.01 * 100)

    def test_a_checkpoint_is_waited_for(self) -> None:
        found = simulate(replace(PLAN, checkpoint_every=2), COSTS, EPISODES, updates=4, warm_up=2)
        assert found.stages["checkpoint"] == pytest.approx(10.0 / 2)

    def test_a_driver_that_is_slow_with_requests_is_the_limit(self) -> None:
        found = simulate(PLAN, replace(COSTS, request=5.0), EPISODES, updates=2, warm_up=1)
        assert found.busy["driver"] > 80

    def test_rollout_drivers_share_prompts_and_leave_a_little_of_each(self) -> None:
        slow = replace(COSTS, prepare=50.0, relayed=1.0)
        found = simulate(PLAN, slow, EPISODES, updates=2, warm_up=1)
        assert found.busy["driver"] > 80
        two = simulate(replace(PLAN, drivers=2), slow, EPISODES, updates=2, warm_up=1)
        assert two.seconds < 0.7 * found.seconds
        assert two.seconds * two.busy["driver"] / 100 == pytest.approx(4 * 3 * 1.0)  # a turn has three

    def test_samples_that_are_too_old_are_not_trained_on(self) -> None:
        """Four updates could be made of a batch; two versions later the rest of it is stale."""
        found = simulate(replace(PLAN, samples=1), COSTS, EPISODES, updates=4, warm_up=2)
        assert found.generated == pytest.approx(4 / 2)


def test_what_steps_tokens_and_prompts_took_is_found_again() -> None:
    def stats(steps: int, generated: int, prefilled: int) -> EngineStats:
        busy = 0.01 * steps + 0.002 * generated + 0.0001 * prefilled
        return EngineStats(0, prefilled, prefilled, generated, 0, steps, busy, 0, 0)

    found = fitted(
        [
            stats(0, 0, 0),
            None,
            stats(10, 50, 300),
            stats(30, 70, 900),
            stats(35, 200, 950),
            stats(80, 300, 5000),
        ]
    )
    assert (found.step, found.sequence) == pytest.approx((0.01, 0.002), rel=0.03)
    assert found.prefill == pytest.approx(
        0.0001 / 2, rel=0.03
    )  # half of the prompts' tokens came from the cache


def test_batches_that_are_much_alike_do_not_take_a_step_for_a_token() -> None:
    """Counters of a run whose engine waited 50 ms a step, 2 ms a sequence and 0.1 ms a prompt token, and a little more
    here and there: three differences of three counters each, all nearly multiples of one another."""
    counted = [
        (302, 4918, 61938, 31.25),
        (461, 9404, 99194, 51.95),
        (649, 14027, 143211, 75.77),
        (949, 19053, 202535, 107.56),
    ]
    found = fitted(
        EngineStats(0, prefilled, 0, generated, 0, steps, busy, 0, 0)
        for steps, generated, prefilled, busy in counted
    )
    assert found.step == pytest.approx(0.05, rel=0.15)
    assert found.sequence == pytest.approx(0.002, rel=0.25)


def test_larger_models_take_longer_and_the_one_of_the_paper_as_it_says() -> None:
    sizes = [latency_of(NAMED[name]) for name in ("Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B", "Qwen3-8B")]
    assert sizes[1] == LatencyModel()
    assert [one.step for one in sizes] == sorted(one.step for one in sizes)
    assert sizes[3].prefill == pytest.approx(sizes[1].prefill * 4.76, rel=0.01)


def test_the_episodes_of_a_run_are_those_that_it_played() -> None:
    fast = {"prompt_tokens": 7, "tokens": 3}
    turns = [turn(1, requests=[fast, fast]), turn(2, requests=[fast], response=response("", 20))]
    (played,) = episodes_of([EpisodeLine.model_validate(episode(turns))])
    assert played == (PlannedTurn(7, (3, 3), 20), PlannedTurn(5, (3,), 20))


def test_stated_episodes_vary_around_their_mean_and_keep_to_the_limit() -> None:
    drawn = Shape(turns=20).episodes(100, limit=25)
    assert max(map(len, drawn)) == 25
    assert 18 < sum(map(len, drawn)) / 100 < 21
    assert drawn == Shape(turns=20).episodes(100, limit=25)


def test_gpus_are_shared_out_as_in_the_recipe() -> None:
    config = resolve("paper/alfworld-1.7b", [])
    plan = Plan.of(config)
    assert (plan.engines, plan.teachers, plan.ranks, plan.tasks, plan.samples) == (4, 2, 2, 16, 64)
    large = shared_out(config, plan, 1024)
    assert (large.engines, large.teachers, large.ranks) == (512, 256, 256)
    odd = shared_out(config, plan, 11)
    assert (odd.engines, odd.teachers, odd.ranks) == (7, 2, 2)
    with pytest.raises(ConfigError, match="uses no GPU"):
        shared_out(resolve("pocket", []), plan, 8)


def test_the_part_that_everything_waits_for_is_the_one_to_add() -> None:
    config = resolve("paper/alfworld-1.7b", ["learner.batch_size=6", "rollout.tasks_per_batch=3"])
    slow_learner = replace(COSTS, token=1.0)
    found = advise(config, slow_learner, EPISODES, 8, updates=3)
    assert next(iter(found.more)) == "learner ranks"
    assert next_part(found).startswith("8 GPUs: add learner ranks")
    many = advise(config, COSTS, EPISODES, 64, updates=3)
    assert "10 ranks have no sequence" in next_part(many)


def test_the_command_plans_from_a_run_that_was_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = overrides(tmp_path, "run.updates=3", "run.keep_responses=0")
    train(resolve("pocket", settings), tmp_path / "run")
    found = run(capsys, "plan", "pocket", *settings, "--like", str(tmp_path / "run"))
    assert found.code == 0, found.err
    assert "s / update" in found.out
    assert "1 + 1 + 1" in found.out
    assert "simulated, with these figures" in found.err
