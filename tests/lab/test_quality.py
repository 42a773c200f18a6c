"""Rollout quality: its metrics on hand-made trajectories, and whole strategies in a corridor."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from dataclasses import replace
from typing import ClassVar

import pytest

from actfirst.errors import ConfigError
from actfirst.lab.drawing import draw_tasks
from actfirst.lab.quality import FastActions, Played, describe, play_all, summarise
from actfirst.methods.strategies import Strategy
from actfirst.records import ActionSource, Episode, Observation, Task, Turn, Verdict
from tests.support.collecting import bench, corridor_tasks, perfect
from tests.support.scripted import Request, Script


def played(success: bool, turns: int, repeated: tuple[int, ...] | None = (), valid: int = 0) -> Played:
    return Played("task", "kind", success, turns, valid, repeated, None)


class TestMetrics:
    def test_repeat_yield_and_turns(self) -> None:
        # 2 of 4 tasks repeat; 3 successes in 5 + 5 + 10 + 30 = 50 turns; 25 of 50 actions are valid
        found = summarise(
            [
                played(True, 5, valid=5),
                played(True, 5, (2, 4)),
                played(True, 10, valid=5),
                played(False, 30, (9,), 15),
            ]
        )
        assert (found.tasks, found.repeat, found.per_100, found.turns) == (4, 50.0, 6.0, 12.5)
        assert (found.success, found.valid) == (75.0, 50.0)

    def test_fast_actions_by_mode_and_alignment(self) -> None:
        # 3 of 4 fast actions can be read, 40 tokens in all; 1 of 2 guided trajectories follows to the end
        guided = {"guided": 1, "first_aligned": 1, "fully_aligned": 1, "aligned_turns": 2, "turns": 2}
        lost = {"guided": 1, "first_aligned": 1, "fully_aligned": 0, "aligned_turns": 1, "turns": 2}
        inverse, direct = FastActions(3, 3, 24), FastActions(1, 0, 16)
        found = summarise(
            [
                replace(played(True, 2), fast={"inverse_dynamics": inverse}, alignment=guided),
                replace(played(False, 2), fast={"next_action": direct}, alignment=lost),
            ]
        )
        assert (found.parsed, found.fast_tokens) == (75.0, 10.0)
        assert (found.first_action, found.full_trajectory) == (100.0, 50.0)
        assert found.modes == {
            "inverse_dynamics": {"asked": 3, "parsed": 100.0, "tokens": 8.0},
            "next_action": {"asked": 1, "parsed": 0.0, "tokens": 16.0},
        }

    def test_thinking_has_no_fast_actions_to_tell_of(self) -> None:
        found = summarise([played(True, 4)])
        assert (found.parsed, found.fast_tokens, found.first_action, found.modes) == (None, None, None, {})

    def test_without_states_there_is_no_repeat_but_everything_else(self) -> None:
        found = summarise([played(True, 4, None)])
        assert (found.repeat, found.per_100) == (None, 25.0)

    def test_episodes_that_never_began_yield_nothing(self) -> None:
        assert summarise([played(False, 0)]).per_100 == 0.0


class TestDescription:
    def episode(self, *turns: tuple[str, str, str]) -> Episode:
        """Turns of (state, observation before, action); the last leads to "A room."."""
        made = tuple(
            Turn(number, seen, action, ActionSource.THINK, True, Verdict.UNCHECKED, (), None, state, 0.0)
            for number, (state, seen, action) in enumerate(turns, start=1)
        )
        final = Observation("A room.", (), success=True, done=True)
        return Episode("e", Task("task", "train", "kind"), 0, made, final, False, 0, 0.0)

    def test_repetitions_are_found_in_what_was_executed(self) -> None:
        found = describe(self.episode(("s", "A room.", "look"), ("s", "A room.", "look")), [True, True])
        assert (found.repeated, found.turns, found.valid, found.success) == ((2,), 2, 2, True)

    def test_validity_is_this_measurements_own(self) -> None:
        found = describe(self.episode(("s", "A room.", "look"), ("s", "A room.", "look")), [True, False])
        assert (found.repeated, found.valid) == ((), 1)

    def test_an_unknown_state_makes_repetition_unknown(self) -> None:
        assert describe(self.episode(("", "A room.", "look")), [True]).repeated is None


class TestStrategies:
    def play(self, strategy: Strategy, script: Script) -> tuple[list[Played], list[int | None]]:
        made = bench("actfirst", script)
        told: list[None] = []
        result = asyncio.run(
            play_all(
                made.collector.player,
                strategy.acting,
                corridor_tasks(4),
                seed=3,
                at_once=2,
                told=lambda: told.append(None),
            )
        )
        assert len(told) == 4
        return result, [request.sampling.seed for request in made.engine.requests]

    @pytest.mark.parametrize("strategy", list(Strategy))
    def test_a_perfect_agent_wins_with_each(self, strategy: Strategy) -> None:
        result, _ = self.play(strategy, perfect)
        found = summarise(result)
        # corridors of 2 to 5 rooms take as many turns
        assert (found.success, found.turns, found.repeat, found.valid) == (100.0, 3.5, 0.0, 100.0)
        assert found.per_100 == pytest.approx(100 * 4 / 14)

    def test_seeds_are_matched_across_strategies_for_each_task_and_turn(self) -> None:
        seeds = {strategy: Counter(self.play(strategy, perfect)[1]) for strategy in Strategy}
        assert seeds[Strategy.DIRECT] == seeds[Strategy.GUIDED]
        assert set(seeds[Strategy.DIRECT]) == set(seeds[Strategy.THINK])

    def test_guided_action_asks_towards_the_reference_and_falls_back(self) -> None:
        prompts: list[bool] = []

        def refused(request: Request) -> str:
            prompts.append(request.is_inverse_dynamics)
            return "<action>fly</action>" if request.is_inverse_dynamics else perfect(request)

        result, _ = self.play(Strategy.GUIDED, refused)
        found = summarise(result)
        assert found.success == 100.0
        assert prompts.count(True) == 4  # one refused proposal per task, then never again
        assert (found.modes["inverse_dynamics"]["asked"], found.modes["next_action"]["asked"]) == (4, 14)
        assert (found.parsed, found.first_action, found.full_trajectory) == (100.0, 0.0, 0.0)

    def test_guided_action_that_follows_is_aligned(self) -> None:
        found = summarise(self.play(Strategy.GUIDED, perfect)[0])
        assert (found.first_action, found.full_trajectory, list(found.modes)) == (
            100.0,
            100.0,
            ["inverse_dynamics"],
        )

    def test_pacing_up_and_down_is_found(self) -> None:
        def pacing(request: Request) -> str:
            step = re.search(r"now at step (\d+)", request.text)
            return f"<action>go {'west' if step and int(step[1]) % 2 == 0 else 'east'}</action>"

        result, _ = self.play(Strategy.DIRECT, pacing)
        assert summarise(result).repeat == 100.0


class TestDrawing:
    TASKS: ClassVar[list[Task]] = [
        Task(f"{kind}{place}", "train", kind)
        for kind, count in (("a", 60), ("b", 30), ("c", 10))
        for place in range(count)
    ]

    def test_kinds_are_drawn_in_proportion(self) -> None:
        assert Counter(task.kind for task in draw_tasks(self.TASKS, 20, 42)) == {"a": 12, "b": 6, "c": 2}

    def test_what_rounding_leaves_goes_to_the_largest_remainders(self) -> None:
        # 4.2, 2.1 and 0.7: the last one is due to c
        assert Counter(task.kind for task in draw_tasks(self.TASKS, 7, 42)) == {"a": 4, "b": 2, "c": 1}

    def test_a_seed_reproduces_and_zero_means_all(self) -> None:
        assert draw_tasks(self.TASKS, 9, 1) == draw_tasks(self.TASKS, 9, 1)
        assert draw_tasks(self.TASKS, 9, 1) != draw_tasks(self.TASKS, 9, 2)
        assert draw_tasks(self.TASKS, 0, 1) == self.TASKS

    def test_more_than_there_are_is_refused(self) -> None:
        with pytest.raises(ConfigError, match="101 tasks are asked for"):
            draw_tasks(self.TASKS, 101, 1)
