"""Curricula at the steps that their authors' code gives: TCOD's depth and prefix, and the weights of turns."""

from __future__ import annotations

import pytest

from actfirst.config.load import resolve
from actfirst.methods.acting import BackToFront, TrainingPoint
from actfirst.methods.depth import FullDepth, GrowingDepth
from actfirst.methods.table import METHODS, method_of
from actfirst.methods.turn_weights import TokenToTurn, Uniform


def at_batch(number: int) -> TrainingPoint:
    """The progress of rollout batch `number`, counted from 1 as TCOD's explorer counts."""
    return TrainingPoint(batch=number - 1, update=7, updates=250)


class TestFrontToBack:
    """k(n) = min(1 + floor(n / eta), T_max)."""

    @pytest.mark.parametrize(
        ("number", "turns"),
        [(1, 1), (5, 1), (6, 2), (17, 3), (18, 4), (173, 29), (174, 30), (175, 30), (1000, 30)],
    )
    def test_alfworld_reaches_all_30_turns_at_batch_174(self, number: int, turns: int) -> None:
        assert GrowingDepth(6, "batch").limit(30, at_batch(number)) == turns

    @pytest.mark.parametrize(("number", "turns"), [(3, 1), (4, 2), (55, 14), (56, 15), (60, 15)])
    def test_webshop_reaches_all_15_turns_at_batch_56(self, number: int, turns: int) -> None:
        assert GrowingDepth(4, "batch").limit(15, at_batch(number)) == turns

    def test_below_batch_18_a_rollout_batch_of_16_tasks_does_not_fill_an_update_of_64(self) -> None:
        rule = GrowingDepth(6, "batch")
        assert 16 * rule.limit(30, at_batch(17)) < 64 <= 16 * rule.limit(30, at_batch(18))

    def test_on_updates_the_schedule_counts_those_that_were_made(self) -> None:
        rule = GrowingDepth(6, "update")
        limits = [rule.limit(30, TrainingPoint(batch=99, update=update)) for update in (0, 5, 6, 174)]
        assert limits == [1, 1, 2, 30]


class TestBackToFront:
    """p(n) = clip((L - 1) - floor(n / eta), 0, L - 1)."""

    @pytest.mark.parametrize(
        ("number", "replayed"), [(1, 19), (4, 19), (5, 18), (9, 18), (10, 17), (94, 1), (95, 0), (400, 0)]
    )
    def test_a_reference_of_20_actions_is_replayed_less_and_less(self, number: int, replayed: int) -> None:
        assert BackToFront(5, "batch")(20, at_batch(number)) == replayed

    def test_a_reference_of_one_action_is_never_replayed(self) -> None:
        assert BackToFront(5, "batch")(1, at_batch(1)) == 0

    def test_on_updates(self) -> None:
        assert [BackToFront(5, "update")(4, TrainingPoint(update=update)) for update in (0, 5, 15)] == [3, 2, 0]


class TestTokenToTurn:
    """w_t = (1 - lambda) L_t / mean(L) + lambda over the first half of 100 updates."""

    RULE = TokenToTurn(warm=0.5)

    def test_at_first_every_token_of_a_trajectory_counts_the_same(self) -> None:
        # mean length 20: a response of 10 tokens counts half, one of 30 tokens one and a half times
        assert self.RULE.weights([10, 30, 20], TrainingPoint(update=0, updates=100)) == [0.5, 1.5, 1.0]

    def test_half_way_through_the_warm_up_it_is_half_of_both(self) -> None:
        assert self.RULE.weights([10, 30, 20], TrainingPoint(update=25, updates=100)) == [0.75, 1.25, 1.0]

    @pytest.mark.parametrize("update", [50, 99])
    def test_afterwards_every_turn_counts_the_same(self, update: int) -> None:
        assert self.RULE.weights([10, 30, 20], TrainingPoint(update=update, updates=100)) == [1.0, 1.0, 1.0]

    def test_the_weights_of_a_trajectory_always_sum_to_its_turns(self) -> None:
        for update in (0, 7, 33, 80):
            weights = self.RULE.weights([3, 5, 11, 1], TrainingPoint(update=update, updates=100))
            assert sum(weights) == pytest.approx(4.0)

    def test_a_trajectory_without_responses_has_no_weights(self) -> None:
        assert self.RULE.weights([], TrainingPoint()) == []


class TestTable:
    def test_every_method_of_the_paper_is_a_row_and_so_are_those_that_learn_from_rewards(self) -> None:
        assert [method.title for method in METHODS.values()] == [
            "Vanilla OPD",
            "TCOD-F2B",
            "TCOD-B2F",
            "TurnOPD-style (reconstruction)",
            "ActFirst-OPD",
            "ActFirst w/o inverse dynamics",
            "ActFirst w/o NAP fallback",
            "Reference-prefix replay (50 %)",
            "Reference-prefix replay (100 %)",
            "GiGPO",
            "GRPO",
            "REINFORCE with a group baseline",
            "OPD plus task reward",
        ]

    def test_the_published_constants_of_tcod_are_the_defaults(self) -> None:
        assert METHODS["tcod-f2b"].depth == GrowingDepth(6, "batch")
        assert METHODS["tcod-b2f"].depth == FullDepth()

    def test_webshop_has_tcods_constants_for_it(self) -> None:
        settings = ["models.student=a", "models.teacher=b"]
        config = resolve("paper/webshop-1.7b", [*settings, "rollout.method=tcod-f2b"])
        assert method_of(config.rollout.method, config.methods).depth == GrowingDepth(4, "batch")

    def test_constants_are_settings(self) -> None:
        config = resolve(
            "pocket",
            [
                "rollout.method=tcod-f2b",
                "methods.tcod_f2b.every=3",
                "methods.tcod_f2b.counter=update",
                "methods.turnopd_style.warm=0.25",
            ],
        )
        assert method_of(config.rollout.method, config.methods).depth == GrowingDepth(3, "update")
        assert method_of(config.rollout.method, config.methods).turn_weights == Uniform()
        turnopd = resolve("pocket", ["rollout.method=turnopd-style", "methods.turnopd_style.warm=0.25"])
        assert method_of(turnopd.rollout.method, turnopd.methods).turn_weights == TokenToTurn(0.25)
