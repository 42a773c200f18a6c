"""Inline, deferred and admitted responses, and their accounting (paper, Section 4.3)."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import replace

from actfirst.errors import EnvironmentFailure, TeacherError
from actfirst.methods.acting import TrainingPoint
from actfirst.records import Observation, Reference, Response, Scores, Task
from actfirst.rollout.collect import RolloutBatch
from tests.support.collecting import GENERATION, Bench, bench, corridor_tasks, perfect
from tests.support.scripted import Request, ScriptedTeacher
from tests.support.toy_world import CorridorEnvironment, CorridorReferences, CorridorWorld


def collect(made: Bench, count: int = 8, index: int = 0, expected: float = 0.0) -> RolloutBatch:
    return asyncio.run(made.collector.collect(index, corridor_tasks(count), TrainingPoint(), expected))


def test_inline_responses_are_the_ones_that_acted() -> None:
    made = bench("vanilla", perfect)
    batch = collect(made)
    assert len(batch.samples) == batch.stats.transitions == len(made.engine.requests)
    assert batch.stats.fast_requests == 0


def test_admitted_generates_exactly_the_budget_when_enough_contexts_are_visited() -> None:
    for expected in (0.0, 28.0):
        batch = collect(bench("actfirst", perfect, budget=10), expected=expected)
        assert batch.stats.contexts == 28
        assert len(batch.samples) >= 10
        assert batch.stats.full_responses == len(batch.samples)
    assert len(collect(bench("actfirst", perfect, budget=10)).samples) == 10
    assert len(collect(bench("actfirst", perfect, budget=100)).samples) == 28


def test_admission_depends_on_seeds_only_not_on_completion_order() -> None:
    def admitted(delay: float) -> list[str]:
        made = bench("actfirst", perfect, budget=10)
        made.engine.delay = lambda request: delay * (len(request.text) % 7)
        return [sample.id for sample in collect(made).samples]

    assert admitted(0.0) == admitted(0.003)


class _LastFirst(ScriptedTeacher):
    """Scores nothing until `count` responses are there, and then the last of them first."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.asked: list[asyncio.Future[None]] = []

    async def score(self, response: Response) -> Scores:
        self.asked.append(asyncio.get_running_loop().create_future())
        if len(self.asked) == self.count:
            for future in reversed(self.asked):
                future.set_result(None)
        await self.asked[-1]
        return await super().score(response)


def test_samples_leave_in_order_of_episode_and_turn_or_of_completion() -> None:
    """Paper, "OPD Optimization": a first-in, first-out buffer of responses."""
    for order in ("position", "completion"):
        teacher = _LastFirst(28)
        made = bench("actfirst", perfect, teacher=teacher)
        batch = collect(replace(made, collector=replace(made.collector, sample_order=order)))  # type: ignore[arg-type]
        left = [sample.prompt_ids for sample in batch.samples]
        completed = [response.prompt_ids for response in teacher.scored]
        assert len(left) == 28
        assert (left == completed) == (order == "completion")
        ids = [sample.id for sample in batch.samples]
        assert (ids == sorted(ids)) == (order == "position")


def test_admission_is_uniform_over_the_turns_visited() -> None:
    """Corridors of 2-5 rooms: 14 contexts per 4 tasks, each drawn equally often over many batches."""
    drawn: Counter[tuple[int, int]] = Counter()
    batches = 400

    async def run() -> None:
        made = bench("actfirst", perfect, budget=5)
        for index in range(batches):
            batch = await made.collector.collect(index, corridor_tasks(4), TrainingPoint(), 14.0)
            drawn.update((int(sample.episode_id.split("-")[1]), sample.turn) for sample in batch.samples)

    asyncio.run(run())
    assert len(drawn) == 14
    mean = sum(drawn.values()) / 14
    chi_square = sum((count - mean) ** 2 / mean for count in drawn.values())
    assert chi_square < 34.5  # 13 degrees of freedom, p = 0.001


def test_a_response_that_cannot_be_scored_is_discarded_with_a_reason_and_counted() -> None:
    class Flaky(ScriptedTeacher):
        async def score(self, response: Response) -> Scores:
            await super().score(response)
            if len(self.scored) % 3 == 0:
                raise TeacherError("out of reach")
            return Scores((-0.5,) * len(response.token_ids))

    batch = collect(bench("actfirst", perfect, teacher=Flaky()))
    assert batch.discarded == {"not scored": 9}
    assert batch.stats.full_responses == len(batch.samples) + 9 == 28


def test_malformed_model_output_is_a_turn_not_a_crash() -> None:
    def rambling(request: Request) -> str:
        return "what <action> am I <action></action> </think> doing " * 3

    for method in ("vanilla", "actfirst", "actfirst-no-id"):
        batch = collect(bench(method, rambling), 2)
        assert all(episode.error is None for episode in batch.episodes)
        assert all(len(episode.turns) == CorridorWorld().turn_limit for episode in batch.episodes)
        assert not any(turn.valid for episode in batch.episodes for turn in episode.turns)


def test_a_prompt_that_cannot_fit_is_recorded_on_its_episode_and_the_others_go_on() -> None:
    class Wordy(CorridorEnvironment):
        def reset(self, task: Task) -> tuple[str, Observation]:
            instruction, first = super().reset(task)
            return instruction, replace(first, text="long " * 4000) if self.length == 3 else first

    class WordyWorld(CorridorWorld):
        def open(self) -> Wordy:
            return Wordy()

    for method in ("vanilla", "actfirst"):
        batch = collect(bench(method, perfect, world=WordyWorld()), 4)
        errors = [episode.error for episode in batch.episodes]
        assert [error is not None for error in errors] == [False, True, False, False]
        assert "PromptTooLong" in str(errors[1])
        assert batch.stats.full_responses == len(batch.samples)


def test_an_environment_that_raises_and_an_unknown_task_are_recorded_and_the_others_go_on() -> None:
    class Broken(CorridorEnvironment):
        def step(self, action: str) -> Observation:
            if self.length == 4:
                raise RuntimeError("simulator gone")
            return super().step(action)

    class BrokenWorld(CorridorWorld):
        def open(self) -> Broken:
            return Broken()

    made = bench("actfirst", perfect, world=BrokenWorld())
    tasks = [*corridor_tasks(4), Task("elsewhere/1", "train", "x")]
    made.collector.player.references.get = lambda task: None  # type: ignore[method-assign]
    batch = asyncio.run(made.collector.collect(0, tasks, TrainingPoint()))
    errors = [episode.error or "" for episode in batch.episodes]
    assert [bool(error) for error in errors] == [False, False, True, False, True]
    assert "simulator gone" in errors[2]
    assert "unknown task" in errors[4]


def test_an_environment_that_failed_is_not_used_again() -> None:
    opened: list[CorridorEnvironment] = []

    class Flaky(CorridorEnvironment):
        def step(self, action: str) -> Observation:
            if len(opened) == 1:
                raise RuntimeError("simulator gone")
            return super().step(action)

    class FlakyWorld(CorridorWorld):
        def open(self) -> Flaky:
            opened.append(Flaky())
            return opened[-1]  # type: ignore[return-value]

    made = bench("vanilla", perfect, world=FlakyWorld())
    failures = [bool(collect(made, 1, index).episodes[0].error) for index in range(3)]
    assert failures == [True, False, False]
    assert len(opened) == 2


def test_a_reference_that_cannot_be_had_is_a_failure_of_its_episode_alone() -> None:
    class Partly(CorridorReferences):
        def get(self, task: Task) -> Reference | None:
            if "/3-" in task.id:
                raise EnvironmentFailure("the game file is corrupt")
            return super().get(task)

    batch = collect(bench("actfirst", perfect, references=Partly()), 4)
    assert [bool(episode.error) for episode in batch.episodes] == [False, True, False, False]


def test_the_same_task_twice_in_a_batch_is_rolled_out_with_different_seeds() -> None:
    made = bench("vanilla", perfect)
    task = corridor_tasks(1)[0]
    asyncio.run(made.collector.collect(0, [task, task], TrainingPoint()))
    seeds = [request.sampling.seed for request in made.engine.requests]
    assert len(seeds) == len(set(seeds)) == 4


def test_a_truncated_response_submits_an_empty_action_in_think_then_act() -> None:
    tight = GENERATION.model_copy(update={"first_stage": 8, "response_limit": 8})
    batch = collect(bench("vanilla", perfect, generation=tight), 1)
    assert {turn.action for turn in batch.episodes[0].turns} == {""}
    assert all(turn.response is not None and turn.response.truncated for turn in batch.episodes[0].turns)
