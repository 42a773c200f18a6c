"""`actfirst bench rollout-options | scale | update`: what they count, on workloads of a second."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.lab.speed import engines, options, prompts, scale, update
from actfirst.lab.speed.models import Size, write_checkpoint
from actfirst.lab.speed.update_child import sequences
from actfirst.lab.spread import Spread, ratios
from actfirst.models.folder import resolve_model


def test_ratios_are_taken_round_by_round() -> None:
    assert ratios([2.0, 9.0, 4.0], [1.0, 3.0, 4.0]) == Spread(2.0, 1.0, 3.0)
    assert Spread(2.0, 1.0, 3.0).text(1) == "2.0 (1.0-3.0)"


class TestRolloutOptions:
    def test_every_row_adds_to_the_one_before_and_the_last_has_everything(self) -> None:
        changed = [{setting.split("=")[0] for setting in settings} for _, settings in options.ROWS]
        assert all(changed)
        assert {setting.split("=")[0] for setting in options._OFF} == set().union(*changed[2:])

    @pytest.mark.slow
    def test_real_rollouts_of_the_pocket_student(self) -> None:
        settings = ["rollout.tasks_per_batch=3", "learner.batch_size=4", "environment.turn_limit=6"]
        rows = options.measure("pocket", settings, None, 1, lambda done, of, what: None)
        by_name = {row.name: row.rounds[0] for row in rows}
        think, paper, admitted, prefixes, drafts, first, growing = (by_name[name] for name, _ in options.ROWS)
        assert think.trained == paper.trained == admitted.trained == 8
        assert admitted.generated <= 10 < think.generated
        assert think.saved == paper.saved == admitted.saved == 0 < prefixes.saved
        assert prefixes.drafted == 0 < drafts.accepted <= drafts.drafted
        assert drafts.steps < prefixes.steps
        # The same tasks, seeds and weights: with drafts the very same tokens come out, in fewer steps.
        assert drafts.generated_tokens == prefixes.generated_tokens == first.generated_tokens
        assert growing.saved > first.saved
        assert rows[0].speedup(rows[0]) == Spread(1.0, 1.0, 1.0)


class TestPrompts:
    """Both orders of prompts on the same random episodes of pocket houses."""

    def test_growing_prompts_prefill_what_is_new_and_the_papers_prefill_the_history(self) -> None:
        config = resolve("pocket")
        student = resolve_model(config.models.student, "models.student")
        rows = prompts.measure_prefill(config, student, 2, [6, 12], lambda done, of, what: None)
        paper, growing = ({row.turns: row for row in rows if row.order == order} for order in prompts.ORDERS)
        for row in rows:
            assert row.new <= row.prefilled <= row.tokens
        for turns in (6, 12):
            assert growing[turns].prefilled < 1.35 * growing[turns].new
            assert growing[turns].prefilled < paper[turns].prefilled
        # Twice the turns: twice the new tokens at most, as the first turn counts most; the history is quadratic.
        assert growing[12].prefilled < 2 * growing[6].prefilled
        assert paper[12].prefilled > 2.2 * paper[6].prefilled

    def test_an_update_over_episodes_computes_fewer_tokens_if_what_begins_alike_is_together(self) -> None:
        config = resolve("pocket", ["learner.batch_size=16", "learner.token_budget=1024"])
        student = resolve_model(config.models.student, "models.student")
        found = prompts.measure_updates(config, student, 4, 8, 4, 1, lambda done, of, what: None)
        by_kind = {(one.order, one.responses): one for one in found}
        growing = by_kind["growing", "all"]
        assert growing.supervised == 4 * 8 * 4
        assert growing.computed < growing.by_length < growing.alone
        assert growing.computed < by_kind["paper", "all"].computed
        assert all(len(one.seconds) == 1 for one in found)

    def test_a_token_is_new_if_no_earlier_prompt_begins_with_it(self) -> None:
        assert prompts.new_tokens([((1, 2, 3), (1, 2, 4)), ((1, 2, 3, 5), (9,))]) == 3 + 1 + 1 + 1


class TestScale:
    def test_a_doubling_doubles_what_it_should(self) -> None:
        base = scale.Workload(tasks=2, turns=2, history=32, pair=16, response=4)
        told: list[tuple[int, int, str]] = []
        (tasks,) = scale.measure(
            base, ["tasks per batch"], 1, 1, 1, lambda done, of, what: told.append((done, of, what))
        )
        one, two = tasks.costs
        assert (one.generated, two.generated) == (2 * 2 * (4 + 8), 4 * 2 * (4 + 8))
        new, all_prompts = 32 + 16, 2 * (32 + 48) + 2
        for cost, played in ((one, 2), (two, 4)):  # how much is shared depends on which requests meet in a step
            assert played * new <= cost.prefilled <= played * all_prompts
            assert cost.memory > 0
        assert len(tasks.slopes) == 1
        assert told == [(1, 2, "tasks per batch x1"), (2, 2, "tasks per batch x2")]

    def test_growth_is_drawn(self, tmp_path: Path) -> None:
        cost = scale.Cost(1.0, 1.0, 1, 1, 1, 1)
        grown = [scale.Growth("turns", (1, 2), (cost, replace(cost, cpu=2.0, memory=2)))]
        scale.draw_growth(grown, tmp_path / "scale.png")
        assert (tmp_path / "scale.png").read_bytes().startswith(b"\x89PNG")

    @pytest.mark.parametrize("axis", list(scale.AXES))
    def test_each_axis_changes_one_thing(self, axis: str) -> None:
        base = scale.Workload()
        changed = scale.AXES[axis](base, 2)
        assert changed != base
        fields = ("tasks", "turns", "history", "pair", "response", "size")
        assert sum(getattr(changed, name) != getattr(base, name) for name in fields) == 1

    def test_a_wider_model_costs_memory(self) -> None:
        base = scale.Workload(tasks=1, turns=1, history=16, response=2)
        wide = scale.AXES["model width"](base, 2)
        costs = [asyncio.run(scale.run(load, 1)) for load in (base, wide)]
        assert costs[1].memory > 2 * costs[0].memory


class TestUpdate:
    def job(self, folder: Path) -> update.Job:
        write_checkpoint(folder, Size(heads=1, layers=1).config(64, 64))
        return update.Job(str(folder), 64, 4, 16, 8, 2, "float32", 1)

    def test_the_batch_has_equal_responses_and_different_prompts(self, tmp_path: Path) -> None:
        made = sequences(self.job(tmp_path))
        assert {len(response) for _, response in made} == {8}
        assert all(8 <= len(prompt) <= 16 for prompt, _ in made)
        assert made == sequences(self.job(tmp_path))

    def test_what_is_compared(self, tmp_path: Path) -> None:
        ours = update.Trained((1.0, 2.0), (1.0, 1.0), 100, 10, 1.0)
        trl = update.Trained((3.0, 4.0), (2.0, 3.0), 100, 20, 1.001)
        found = update.Comparison(self.job(tmp_path), ours, trl)
        assert found.speedup == Spread(2.5, 2.0, 3.0)
        assert found.gradient_gap == pytest.approx(0.001, rel=1e-2)
        assert ours.tokens_per_second == Spread(75.0, 50.0, 100.0)

    @pytest.mark.slow
    @pytest.mark.skipif(importlib.util.find_spec("trl") is None, reason="TRL comes with the extra `bench`")
    def test_both_trainers_have_the_same_gradient(self, tmp_path: Path) -> None:
        job = self.job(tmp_path)
        found = update.compare(job, Size(1, 1), 1, sys.executable, lambda done, of, what: None)
        assert found.ours.tokens == found.trl.tokens
        assert found.gradient_gap < 1e-4


class TestEngines:
    def test_rates_are_tokens_of_processor_seconds_and_pairs_of_rounds_are_compared(self) -> None:
        embedded, vllm = engines.Seconds([2.0, 4.0], [1.0, 1.0]), engines.Seconds([4.0, 2.0], [3.0, 2.0])
        point = engines.Point("12M", 12_000_000, 8, 16, {"embedded": embedded, "vllm": vllm})
        assert point.rate("embedded", "prefill") == Spread(600.0, 400.0, 800.0)
        assert point.rate("vllm", "decode").most == 64.0
        assert point.ahead("prefill") == Spread(1.25, 0.5, 2.0)
        assert point.ahead("decode") == Spread(2.5, 2.0, 3.0)
        (row,) = engines.rows([point])
        assert row["prefill, times vLLM"] == "1.25 (0.50-2.00)"

    def test_the_embedded_engine_alone(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(engines.SHAPES, "small", engines.Shape(64, 96, 2, 2, 1, 4096))
        (point,) = engines.measure(["small"], ["embedded"], [2], 3, 1, 1, tmp_path, lambda done, of, what: None)
        assert point.ahead("prefill") is None
        assert all(
            len(found) == 1 for found in (point.seconds["embedded"].prefill, point.seconds["embedded"].decode)
        )
