"""The rollout efficiency experiment: schedules, cap, formulas and stored result, on a virtual clock."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from actfirst.engines.base import Priority, Sampling
from actfirst.errors import ConfigError, EngineError
from actfirst.lab.rollout.experiment import simulate
from actfirst.lab.rollout.result import Calibration, RolloutPoint, read_rollout
from actfirst.lab.rollout.schedules import Bench, BenchContext, Gate, timed
from actfirst.lab.rollout.settings import SCALES, Point, RolloutSettings
from actfirst.lab.rollout.simulated import (
    PROMPT_TOKENS,
    LatencyModel,
    SimulatedEngine,
    run_in_virtual_time,
)
from actfirst.lab.rollout.timing import (
    bound_seconds,
    calibrate,
    calibrated_cap,
    calibrated_speedup,
    summarise,
    time_point,
)
from actfirst.lab.theory import Latencies, predict
from actfirst.records import Completion

# A token takes a second, whatever else is under way: the idealized model of the paper.
IDEAL = LatencyModel(step=1.0, sequence=0.0, prefill=0.0)
WIDE = 10_000


def contexts(count: int, prompt: int = 4) -> list[BenchContext]:
    return [BenchContext(f"task {place}", (0,) * prompt, (0,) * prompt) for place in range(count)]


def bench(engine: SimulatedEngine, fast: int = 1, full: int = 10) -> Bench:
    return Bench(engine, fast, full, seed=42)


class RecordingEngine(SimulatedEngine):
    """Remembers what it was asked for."""

    def __init__(self, model: LatencyModel = IDEAL) -> None:
        super().__init__(model)
        self.asked: list[tuple[Priority, Sampling]] = []
        self.prompts: list[tuple[int, ...]] = []

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion:
        self.asked.append((priority, sampling))
        self.prompts.append(tuple(prompt_ids))
        return await super().generate(prompt_ids, sampling, priority)


class TestSchedules:
    """On the idealized model the two schedules take what Proposition 1 says."""

    @pytest.mark.parametrize(("turns", "tasks"), [(1, 1), (5, 1), (5, 3), (30, 2)])
    def test_times_are_those_of_the_proposition(self, turns: int, tasks: int) -> None:
        async def run() -> tuple[float, float]:
            made = bench(SimulatedEngine(IDEAL))
            vanilla = await timed(made.vanilla, contexts(tasks), turns, Gate(WIDE, fast_first=True))
            return vanilla, await timed(made.actfirst, contexts(tasks), turns, Gate(WIDE, fast_first=True))

        vanilla, actfirst = run_in_virtual_time(run())
        expected = predict(turns, tasks, None, Latencies(1.0, 10.0))
        assert vanilla == pytest.approx(expected.vanilla_seconds, abs=1e-6)
        assert actfirst == pytest.approx(expected.actfirst_seconds, abs=1e-6)

    def test_one_slot_makes_everything_wait(self) -> None:
        async def run() -> float:
            return await timed(bench(SimulatedEngine(IDEAL)).actfirst, contexts(1), 5, Gate(1, fast_first=True))

        assert run_in_virtual_time(run()) == pytest.approx(5 * 11, abs=1e-6)

    def test_lengths_are_exact_and_full_responses_have_the_same_seeds_in_both(self) -> None:
        async def run() -> tuple[list[tuple[Priority, Sampling]], list[tuple[Priority, Sampling]]]:
            first, second = RecordingEngine(), RecordingEngine()
            await timed(bench(first).vanilla, contexts(2), 3, Gate(WIDE, fast_first=True))
            await timed(bench(second).actfirst, contexts(2), 3, Gate(WIDE, fast_first=True))
            return first.asked, second.asked

        vanilla, actfirst = run_in_virtual_time(run())
        full = [sampling for priority, sampling in actfirst if priority is Priority.FULL]
        fast = [sampling for priority, sampling in actfirst if priority is Priority.FAST]
        assert sorted(s.seed or 0 for _, s in vanilla) == sorted(s.seed or 0 for s in full)
        assert len({s.seed for s in full + fast}) == 12
        assert {(s.max_tokens, s.ignore_eos, s.stop, s.temperature) for s in full} == {(10, True, (), 1.0)}
        assert {(s.max_tokens, s.ignore_eos) for s in fast} == {(1, True)}

    def test_only_the_two_prompts_of_one_turn_begin_alike(self) -> None:
        """Real turns do not repeat a prompt, and a prefix cache must not gain from it here."""
        tokens = tuple(range(1, 65))

        async def run() -> list[tuple[int, ...]]:
            engine = RecordingEngine()
            for _ in range(2):
                one = BenchContext("task", (*tokens, 7), (*tokens, 8))
                await timed(bench(engine).actfirst, [one], 3, Gate(WIDE, fast_first=True))
            return engine.prompts

        prompts = run_in_virtual_time(run())
        assert len(prompts) == 2 * 2 * 3
        assert {len(prompt) for prompt in prompts} == {65}
        assert sorted(Counter(prompt[:64] for prompt in prompts).values()) == [2] * 6


class TestGate:
    def test_the_cap_holds_and_fast_requests_go_first(self) -> None:
        assert self.order(fast_first=True) == ["full 0", "fast 0", "fast 1", "full 1"]

    def test_or_in_order_of_arrival(self) -> None:
        assert self.order(fast_first=False) == ["full 0", "full 1", "fast 0", "fast 1"]

    @staticmethod
    def order(*, fast_first: bool) -> list[str]:
        entered: list[str] = []

        async def run() -> None:
            gate = Gate(1, fast_first=fast_first)

            async def request(name: str, priority: Priority) -> None:
                async with gate.slot(priority):
                    entered.append(name)
                    await asyncio.sleep(1.0)

            names = [("full 0", Priority.FULL), ("full 1", Priority.FULL)]
            names += [("fast 0", Priority.FAST), ("fast 1", Priority.FAST)]
            await asyncio.gather(*(request(*name) for name in names))

        run_in_virtual_time(run())
        return entered

    def test_a_request_that_gives_up_waiting_does_not_keep_the_slot(self) -> None:
        async def run() -> float:
            gate, clock = Gate(1, fast_first=True), asyncio.get_running_loop().time

            async def hold() -> None:
                async with gate.slot(Priority.FULL):
                    await asyncio.sleep(1.0)

            tasks = [asyncio.ensure_future(hold()) for _ in range(3)]
            await asyncio.sleep(0.5)
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return clock()

        assert run_in_virtual_time(run()) == pytest.approx(2.0, abs=1e-6)


class TestSimulatedEngine:
    MODEL = LatencyModel(step=0.1, sequence=0.01, prefill=0.001, max_prefill=100)

    def seconds(self, *lengths: tuple[int, int]) -> list[float]:
        """When requests of (prompt, tokens) that arrive together are over."""

        async def one(engine: SimulatedEngine, prompt: int, tokens: int) -> float:
            done = await engine.generate((0,) * prompt, Sampling(tokens))
            assert len(done.token_ids) == tokens
            return asyncio.get_running_loop().time()

        async def run() -> list[float]:
            engine = SimulatedEngine(self.MODEL)
            return await asyncio.gather(*(one(engine, *length) for length in lengths))

        return run_in_virtual_time(run())

    def test_one_request(self) -> None:
        # a step with 50 prompt tokens and a token, then two plain steps
        assert self.seconds((50, 3)) == pytest.approx([(0.11 + 0.05) + 2 * 0.11], abs=1e-6)

    def test_a_long_prompt_takes_several_steps(self) -> None:
        # 100 prompt tokens without any token, then 50 with the first one
        assert self.seconds((150, 1)) == pytest.approx([(0.1 + 0.1) + (0.11 + 0.05)], abs=1e-6)

    def test_sequences_slow_each_other_down(self) -> None:
        # a step of two with 20 prompt tokens, one step of two, then two of the longer one alone
        both = (0.12 + 0.02) + 0.12
        assert self.seconds((10, 2), (10, 4)) == pytest.approx([both, both + 2 * 0.11], abs=1e-6)

    def test_what_it_cannot_do_it_refuses(self) -> None:
        with pytest.raises(EngineError, match="cannot score"):
            run_in_virtual_time(SimulatedEngine(IDEAL).score([1], [2]))
        with pytest.raises(EngineError, match="no weights"):
            run_in_virtual_time(SimulatedEngine(IDEAL).load_weights({}, 1))
        with pytest.raises(EngineError, match="counts nothing"):
            SimulatedEngine(IDEAL).stats()

    @pytest.mark.parametrize(
        ("full", "cap", "published"), [(128, 16, 0.80), (128, 256, 1.49), (512, 16, 0.92), (512, 256, 2.42)]
    )
    def test_its_defaults_give_the_speedups_that_the_paper_measured(
        self, full: int, cap: int, published: float
    ) -> None:
        """Paper, Section 5.4: one A100, Qwen3-1.7B, 16 tasks of 30 turns."""
        settings = replace(SCALES["paper"].one_batch(), full=(full,))

        async def run() -> RolloutPoint:
            engine, made = SimulatedEngine(LatencyModel()), contexts(16, PROMPT_TOKENS)
            found = await calibrate(engine, made, settings)
            return await time_point(engine, made, found, settings, Point(full, cap, 30))

        assert run_in_virtual_time(run()).speedup == pytest.approx(published, abs=0.03)


class TestFormulas:
    """Two tasks: fast 1 and 2 s, full 10 and 8 s; three turns."""

    TASKS = (Calibration(1.0, {10: 10.0}), Calibration(2.0, {10: 8.0}))

    def test_a_batch_waits_for_its_slowest_task(self) -> None:
        # vanilla max(30, 24); ActFirst max(2 + 10, 4 + 8)
        assert calibrated_speedup(self.TASKS, 2, Point(10, 99, 3)) == pytest.approx(30 / 12)

    def test_batches_add_up(self) -> None:
        # alone: 30 / 12 and 24 / 12
        assert calibrated_speedup(self.TASKS, 1, Point(10, 99, 3)) == pytest.approx((30 + 24) / (12 + 12))

    def test_a_fast_action_that_is_slower_than_a_response_counts_at_the_last_turn(self) -> None:
        slow = [Calibration(5.0, {10: 3.0})]
        assert calibrated_speedup(slow, 1, Point(10, 99, 3)) == pytest.approx(9 / 15)

    @pytest.mark.parametrize(("cap", "seconds"), [(1, 63.0), (2, 31.5), (6, 12.0), (100, 12.0)])
    def test_the_least_time_by_slots_or_by_dependency(self, cap: int, seconds: float) -> None:
        # 3 * (1 + 10) + 3 * (2 + 8) = 63 seconds of slots; dependency 12
        assert bound_seconds(self.TASKS, 2, Point(10, cap, 3)) == pytest.approx(seconds)

    def test_the_cap_below_which_nothing_is_gained(self) -> None:
        assert calibrated_cap(self.TASKS, 2, 10) == pytest.approx(2 * (1 + 3 / 18))

    def test_what_a_point_says(self) -> None:
        seconds = ([40.0, 60.0], [20.0, 20.0], [10.0, 18.0], [14.0, 15.0])
        found = summarise(Point(10, 6, 3), seconds, self.TASKS, 2, acted_first=True)
        assert (found.vanilla_mean, found.actfirst_mean, found.bound_seconds) == (50.0, 20.0, 12.0)
        assert found.speedup == 2.5  # the mean of 2 and 3, repeat by repeat
        assert found.deviation == pytest.approx(0.7071, abs=1e-4)
        assert (found.attained, found.limited) == (60.0, pytest.approx(50 / 12))
        assert found.over_bound == pytest.approx(20.0 / 16.0)  # the larger bound of each repeat: 14 and 18
        assert found.most == pytest.approx(2.5 * 1.25)
        assert str(found) == "10 tokens, cap 6, 3 turns: 2.50x"

    def test_one_repeat_has_no_deviation(self) -> None:
        found = summarise(Point(10, 6, 3), ([40.0], [20.0], [10.0], [14.0]), self.TASKS, 2, acted_first=True)
        assert found.deviation is None


class TestRepeats:
    SETTINGS = RolloutSettings(4, 2, 1, (3,), (8,), 2, (2,), 8, repeats=2)

    def test_the_order_alternates_and_calibration_measures_single_requests(self) -> None:
        async def run() -> tuple[list[Calibration], RolloutPoint, list[Priority]]:
            engine, made = RecordingEngine(), contexts(4)
            found = await calibrate(engine, made, self.SETTINGS)
            engine.asked.clear()
            timing = await time_point(engine, made, found, self.SETTINGS, Point(3, 8, 2))
            return found, timing, [priority for priority, _ in engine.asked]

        found, timing, asked = run_in_virtual_time(run())
        assert [one.fast for one in found] == pytest.approx([1.0] * 4, abs=1e-6)
        assert [one.full[3] for one in found] == pytest.approx([3.0] * 4, abs=1e-6)
        # two batches each; a repeat has 8 full requests of vanilla, 8 + 8 of ActFirst, 8 + 4 of the chain (a last
        # response for each task), 8 + 8 of the work without dependencies
        fast = [priority is Priority.FAST for priority in asked]
        assert len(asked) == 2 * (8 + 16 + 12 + 16)
        assert not any(fast[:8])  # vanilla first
        assert not any(fast[-8:])  # then last
        assert timing.vanilla_seconds == pytest.approx((12.0, 12.0), abs=1e-6)
        assert timing.actfirst_seconds == pytest.approx((8.0, 8.0), abs=1e-6)
        # an action and a last response in a chain; everything at once under a cap of 8 takes one response's time
        assert timing.chain_seconds == pytest.approx((8.0, 8.0), abs=1e-6)
        assert timing.work_seconds == pytest.approx((6.0, 6.0), abs=1e-6)
        assert (timing.over_bound, timing.acted_first) == (pytest.approx(1.0), True)

    @pytest.mark.parametrize(("cap", "acts_first"), [(2, False), (3, True)])
    def test_optimised_gives_way_where_acting_first_cannot_pay(self, cap: int, acts_first: bool) -> None:
        """Two tasks: below N (1 + l_fast / l_full) = 2.67 slots the fast actions are work that nothing hides."""

        async def run() -> RolloutPoint:
            engine, made = RecordingEngine(), contexts(4)
            settings = replace(self.SETTINGS, optimised=True)
            found = await calibrate(engine, made, settings)
            return await time_point(engine, made, found, settings, Point(3, cap, 4))

        timing = run_in_virtual_time(run())
        assert timing.acted_first is acts_first
        assert (timing.actfirst_seconds == pytest.approx(timing.vanilla_seconds)) is not acts_first
        assert timing.chain_seconds[0] < timing.vanilla_seconds[0]  # the bounds are those of acting first


class TestSettings:
    def test_a_point_of_both_scans_is_timed_once(self) -> None:
        assert len(SCALES["paper"].points()) == 2 * (5 + 6 - 1)

    def test_a_smaller_scale_keeps_the_ratios(self) -> None:
        paper, laptop = SCALES["paper"], SCALES["laptop"]
        assert [full / laptop.fast for full in laptop.full] == [full / paper.fast for full in paper.full]

    def test_batches_are_full(self) -> None:
        with pytest.raises(ConfigError, match="do not fill batches"):
            replace(SCALES["tiny"], contexts=5)


class TestStoredResult:
    SETTINGS = SCALES["tiny"].one_batch()

    def run(self, path: Path, prompt: int = 5) -> list[tuple[int, int]]:
        told: list[tuple[int, int]] = []
        simulate(IDEAL, prompt, self.SETTINGS, path, lambda done, of, point: told.append((done, of)))
        return told

    def test_it_says_that_it_is_simulated_and_how(self, tmp_path: Path) -> None:
        path = tmp_path / "deep" / "result.json"
        assert self.run(path) == [(count, 6) for count in range(1, 7)]
        found = read_rollout(path)
        assert (found.simulated, found.complete, len(found.points)) == (True, True, 6)
        assert "a step takes 1000 ms" in found.engine
        data = json.loads(path.read_text())
        assert data["kind"] == "bench-rollout"
        assert {"processor", "cores", "python", "torch"} <= set(data["machine"])
        assert data["calibration"]["full"] == {"4": pytest.approx(4.0), "8": pytest.approx(8.0)}

    def test_a_stopped_measurement_goes_on_with_what_is_missing(self, tmp_path: Path) -> None:
        path = tmp_path / "result.json"
        self.run(path)
        data = json.loads(path.read_text())
        kept = data["points"][:4]
        path.write_text(json.dumps({**data, "points": kept, "complete": False}))
        assert self.run(path) == [(5, 6), (6, 6)]
        assert json.loads(path.read_text())["points"][:4] == kept
        assert self.run(path) == []

    def test_another_measurement_is_not_overwritten(self, tmp_path: Path) -> None:
        path = tmp_path / "result.json"
        self.run(path)
        with pytest.raises(ConfigError, match=r"another measurement \(other prompt_tokens\)"):
            self.run(path, prompt=6)
