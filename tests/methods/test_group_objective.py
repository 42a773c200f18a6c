"""Objectives that compare rewards of a group: by hand, through whole rollout batches, and what leaves a group."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field, replace
from itertools import count
from math import isfinite

import pytest

from actfirst.config.load import resolve
from actfirst.config.method_sections import (
    GigpoSection,
    GrpoSection,
    MethodsSection,
    OpdRewardSection,
    ReinforceSection,
)
from actfirst.environments.base import World
from actfirst.errors import ConfigError, EnvironmentFailure, RolloutError
from actfirst.methods.acting import ThinkThenAct, TrainingPoint
from actfirst.methods.group_objective import ALONE, EQUAL, LEFT, NO_SIGNAL, GroupRelative
from actfirst.methods.group_relative import GroupSettings
from actfirst.methods.objective import Objective, Scored
from actfirst.methods.table import METHODS, Method, ResponseTiming, method_of
from actfirst.records import (
    ActionSource,
    Episode,
    Observation,
    Response,
    StopReason,
    Task,
    Turn,
    Verdict,
)
from actfirst.rollout.collect import RolloutBatch
from tests.support.collecting import bench, corridor_tasks, perfect
from tests.support.scripted import Request
from tests.support.toy_world import CorridorEnvironment, CorridorWorld

GRPO = METHODS["grpo"].objective


def turn(number: int, observation: str, action: str | None = "go", text: str = "<think></think>") -> Turn:
    given = Response((1,), (2, 3, 4), (-1.0, 0.0, -2.0), (1, 0, 1), text, action, False, StopReason.EOS, 1, 0)
    return Turn(
        number, observation, action or "", ActionSource.THINK, True, Verdict.UNCHECKED, (), given, "", 0.0
    )


def episode(
    place: int,
    observations: str,
    success: bool,
    *,
    task: str = "t",
    error: str | None = None,
    score: float | None = None,
) -> Episode:
    """One that saw these letters, one per turn."""
    turns = tuple(turn(number, letter) for number, letter in enumerate(observations, start=1))
    earned = 100.0 * success if score is None else score
    final = Observation("end", (), done=success, success=success, score=earned)
    return Episode(f"e{place}", Task(task, "train", "k"), 0, turns, final, False, 0, 0.0, error)


def responses(episodes: list[Episode], teacher: tuple[float, ...] = ()) -> list[Scored]:
    found = []
    for place, one in enumerate(episodes):
        for each in one.turns:
            assert each.response is not None
            found.append(Scored(place, each.number, each.response, teacher))
    return found


def values(objective: Objective, episodes: list[Episode]) -> list[float | str]:
    """The advantage at the first token of each response."""
    found = objective.advantages(responses(episodes), episodes)
    return [one if isinstance(one, str) else one[0] for one in found]


WON_AND_LOST = [episode(0, "012", True), episode(1, "01", False)]


class TestByHand:
    def test_gigpo_gives_the_known_answers(self) -> None:
        expected = [1.4374, 1.4374, 0.7303, -1.8026, -1.8026]
        assert values(METHODS["gigpo"].objective, WON_AND_LOST) == pytest.approx(expected, abs=1e-4)

    def test_grpo_compares_episodes_over_all_their_turns_or_over_trajectories(self) -> None:
        """Rewards 10, 0, 0, 0 in trajectories of 4, 1, 2 and 3 turns. Over turns: mean 4, sample deviation 5.164; over
        trajectories: mean 2.5, sample deviation 5, however long they are."""
        four = [episode(0, "0123", True), *(episode(place, "0" * place, False) for place in (1, 2, 3))]
        assert values(GRPO, four) == pytest.approx([1.16190] * 4 + [-0.77460] * 6, abs=1e-5)
        textbook = method_of("grpo", MethodsSection(grpo=GrpoSection(over="trajectories"))).objective
        assert values(textbook, four) == pytest.approx([1.5] * 4 + [-0.5] * 6, abs=1e-5)

    def test_reinforce_subtracts_the_mean_of_its_group(self) -> None:
        found = values(METHODS["reinforce"].objective, WON_AND_LOST)
        assert found == pytest.approx([4.0] * 3 + [-6.0] * 2)

    def test_opd_plus_reward_adds_the_weighted_reward_to_distillation(self) -> None:
        constants = MethodsSection(opd_reward=OpdRewardSection(weight=0.5, normalisation="mean_norm"))
        objective = method_of("opd-reward", constants).objective
        found = objective.advantages(responses(WON_AND_LOST, (-0.5, -9.0, -3.0)), WON_AND_LOST)
        # Distillation: -0.5 + 1 and -3 + 2; the reward adds 0.5 x (10 - 6) or 0.5 x (0 - 6); inserted tokens none.
        assert found == [pytest.approx((2.5, 0.0, 1.0))] * 3 + [pytest.approx((-2.5, 0.0, -4.0))] * 2

    def test_groups_are_apart(self) -> None:
        others = [episode(2, "0", True, task="u"), episode(3, "0", True, task="u")]
        found = values(GRPO, [*WON_AND_LOST, *others])
        assert found[-2:] == [0.0, 0.0]
        assert found[:5] == values(GRPO, WON_AND_LOST)

    def test_a_score_is_a_share_of_the_whole_reward(self) -> None:
        objective = method_of("reinforce", MethodsSection(reinforce=ReinforceSection(reward="score"))).objective
        found = values(objective, [episode(0, "0", False, score=30.0), episode(1, "0", False, score=50.0)])
        assert found == pytest.approx([-1.0, 1.0])

    @pytest.mark.parametrize(
        ("rule", "odd", "penalised"),
        [
            ("unparsed", turn(1, "0", action=None), True),
            ("unparsed", turn(1, "0", text="no tags"), False),
            ("unparsed-or-no-thought", turn(1, "0", text="no tags"), True),
            ("unparsed-or-no-thought", turn(1, "0"), False),
            ("inadmissible", replace(turn(1, "0"), valid=False), True),
            ("unparsed", replace(turn(1, "0"), valid=False), False),
        ],
    )
    def test_what_counts_as_invalid_is_a_setting(self, rule: str, odd: Turn, penalised: bool) -> None:
        constants = GrpoSection(invalid=rule, normalisation="mean_norm")  # type: ignore[arg-type]
        objective = method_of("grpo", MethodsSection(grpo=constants)).objective
        pair = [replace(episode(0, "0", True), turns=(odd,)), episode(1, "0", False)]
        assert values(objective, pair)[0] == pytest.approx(4.95 if penalised else 5.0)


class TestLeavingAGroup:
    def test_a_failed_episode_counts_in_no_mean_and_gives_no_sample(self) -> None:
        failed = episode(2, "01", False, error="EnvironmentFailure: it died")
        found = values(GRPO, [*WON_AND_LOST, failed])
        assert found[:5] == values(GRPO, WON_AND_LOST)
        assert found[5:] == [LEFT, LEFT]

    def test_a_group_of_one_gives_no_samples(self) -> None:
        assert values(GRPO, [episode(0, "01", True)]) == [ALONE, ALONE]
        failed = episode(1, "0", False, error="EnvironmentFailure: it died")
        assert values(GRPO, [episode(0, "0", True), failed]) == [ALONE, LEFT]

    def test_an_episode_that_was_over_at_once_is_nobody_to_compare_with(self) -> None:
        assert values(METHODS["gigpo"].objective, [episode(0, "0", True), episode(1, "", True)]) == [ALONE]

    @pytest.mark.parametrize("method", ["gigpo", "grpo", "reinforce"])
    def test_a_batch_of_equal_rewards_gives_counted_reasons_and_never_a_nan(self, method: str) -> None:
        lost = [episode(place, "012", False) for place in range(4)]
        assert values(METHODS[method].objective, lost) == [NO_SIGNAL] * 12

    def test_dynamic_sampling_leaves_out_groups_of_equal_rewards_only(self) -> None:
        constants = MethodsSection(gigpo=GigpoSection(dynamic_sampling=True))
        lost = [episode(place, "0", False, task="u") for place in (2, 3)]
        found = values(method_of("gigpo", constants).objective, [*WON_AND_LOST, *lost])
        assert found[5:] == [EQUAL, EQUAL]
        assert not any(isinstance(value, str) for value in found[:5])

    def test_opd_plus_reward_keeps_distillation_where_there_is_no_group(self) -> None:
        objective = METHODS["opd-reward"].objective
        alone = [episode(0, "0", True)]
        assert objective.advantages(responses(alone, (-0.5, -9.0, -3.0)), alone) == [(0.5, 0.0, -1.0)]

    def test_a_reward_function_that_raises_leaves_its_episode_out_and_says_so(self) -> None:
        def odd(one: Episode) -> float:
            return {"e0": 1.0, "e1": 0.0}[one.id]

        objective = GroupRelative(GroupSettings(step_weight=0.0, over="trajectories"), odd)
        found = values(objective, [*WON_AND_LOST, episode(2, "0", True)])
        assert found[5:] == ["left its group: the reward failed (KeyError)"]
        assert not any(isinstance(value, str) for value in found[:5])
        infinite = values(GroupRelative(reward=lambda one: float("nan")), WON_AND_LOST)
        assert infinite == ["left its group: the reward failed (not finite)"] * 5

    def test_an_environment_without_scores_is_named(self) -> None:
        objective = method_of("grpo", MethodsSection(grpo=GrpoSection(reward="score"))).objective
        with pytest.raises(RolloutError, match='gives no scores; set the method\'s reward = "success"'):
            values(objective, [episode(0, "0", True, score=0.0), episode(1, "0", False)])


class TestConfiguration:
    def test_a_group_of_one_is_refused(self) -> None:
        with pytest.raises(ConfigError, match=r"rollout.group_size.*at least 2"):
            resolve("pocket", ["rollout.method=grpo"])

    def test_responses_that_did_not_act_cannot_be_compared(self) -> None:
        with pytest.raises(ConfigError, match="INLINE"):
            Method("odd", ThinkThenAct(), ResponseTiming.DEFERRED, objective=GRPO)

    def test_a_teacher_is_asked_for_only_where_something_needs_one(self) -> None:
        rewards = [
            "rollout.method=gigpo",
            "rollout.group_size=2",
            "evaluation.teacher=false",
            "models.teacher=",
        ]
        assert resolve("pocket", rewards).models.teacher == ""
        for asks in ("learner.kl_weight=0.01", "rollout.method=opd-reward", "evaluation.teacher=true"):
            with pytest.raises(ConfigError, match=r"models\.teacher"):
                resolve("pocket", [*rewards, asks])


def collect(
    method: str = "gigpo",
    *,
    anchored: bool = False,
    shuffled: bool = False,
    world: World | None = None,
    objective: Objective | None = None,
) -> RolloutBatch:
    """Two corridors, each played by four agents: those whose seed is odd go the wrong way at first."""

    def sometimes(request: Request) -> str:
        odd = (request.sampling.seed or 0) % 2
        return "<think>\n\n</think>\n\n<action>wait</action>" if odd else perfect(request)

    made = bench(method, sometimes, world=world)
    collector = replace(made.collector, anchored=anchored, shuffled=shuffled)
    if objective is not None:
        collector = replace(collector, method=replace(collector.method, objective=objective))
    tasks = [task for task in corridor_tasks(2) for _ in range(4)]
    return asyncio.run(collector.collect(0, tasks, TrainingPoint()))


class TestRollouts:
    def test_members_share_their_task_and_have_seeds_and_ids_of_their_own(self) -> None:
        batch = collect()
        assert Counter(one.task.id for one in batch.episodes) == dict.fromkeys(
            [task.id for task in corridor_tasks(2)], 4
        )
        assert len({one.id for one in batch.episodes}) == 8
        lengths = {len(one.turns) for one in batch.episodes if one.task == corridor_tasks(1)[0]}
        assert len(lengths) > 1  # they drew differently

    def test_every_response_is_a_sample_with_one_advantage_at_all_its_generated_tokens(self) -> None:
        batch = collect()
        assert len(batch.samples) == sum(len(one.turns) for one in batch.episodes)
        for sample in batch.samples:
            assert len({a for a, kept in zip(sample.advantages, sample.mask) if kept}) == 1
        assert len({sample.advantages[0] for sample in batch.samples}) > 2

    def test_the_teacher_is_asked_only_for_an_anchor(self) -> None:
        assert all(sample.anchor_logprobs == () for sample in collect().samples)
        assert all(len(s.anchor_logprobs) == len(s.token_ids) for s in collect(anchored=True).samples)

    def test_a_shuffled_batch_has_the_same_samples_in_an_order_that_the_seed_says(self) -> None:
        plain, one, other = collect(), collect(shuffled=True), collect(shuffled=True)
        assert one.samples == other.samples != plain.samples
        assert sorted(s.id for s in one.samples) == sorted(s.id for s in plain.samples)


@dataclass(frozen=True)
class Broken(CorridorWorld):
    """The environments of this world that were opened first fail at their second step, and later ones do not."""

    failures: int = 0
    opened: list[CorridorEnvironment] = field(default_factory=list)

    def open(self) -> CorridorEnvironment:
        number, environment = len(self.opened), CorridorEnvironment()
        step, steps = environment.step, count(1)

        def failing(action: str) -> Observation:
            if number < self.failures and next(steps) == 2:
                raise EnvironmentFailure("it died")
            return step(action)

        environment.step = failing  # type: ignore[method-assign]
        self.opened.append(environment)
        return environment


class NoScores(CorridorWorld):
    """Says whether a task succeeded, and no more."""

    def open(self) -> CorridorEnvironment:
        environment = CorridorEnvironment()
        step = environment.step
        environment.step = lambda action: replace(step(action), score=0.0)  # type: ignore[method-assign]
        return environment


def assert_accounted(batch: RolloutBatch) -> None:
    """Every response is a sample with finite numbers, or a counted reason."""
    assert batch.stats.full_responses == len(batch.samples) + sum(batch.discarded.values())
    assert all(isfinite(value) for sample in batch.samples for value in sample.advantages)


class TestWhatGoesWrong:
    """In whole rollout batches: a clear error or a counted reason, and never a number that is not finite."""

    @pytest.mark.parametrize("failures", [1, 2, 7, 8])
    def test_episodes_whose_environment_failed_leave_their_groups(self, failures: int) -> None:
        batch = collect(world=Broken(failures=failures))
        assert_accounted(batch)
        failed = {one.id for one in batch.episodes if one.error}
        assert len(failed) == failures
        assert batch.discarded[LEFT] == 2 * failures  # the response whose action failed, and the one before it
        assert failed.isdisjoint(sample.episode_id for sample in batch.samples)
        left = [one for one in batch.episodes if not one.error]
        members = Counter(one.task.id for one in left)
        alone = {one.id for one in left if members[one.task.id] == 1}
        assert batch.discarded.get(ALONE, 0) == sum(len(one.turns) for one in left if one.id in alone)
        assert alone.isdisjoint(sample.episode_id for sample in batch.samples)

    def test_the_members_that_are_left_are_compared_as_if_the_failed_one_had_never_been(self) -> None:
        batch = collect(world=Broken(failures=1))
        left = [one for one in batch.episodes if not one.error]
        expected = METHODS["gigpo"].objective.advantages(responses(left), left)
        found = {sample.id: sample.advantages[0] for sample in batch.samples}
        assert [found[f"{left[one.episode].id}-t{one.turn:03d}"] for one in responses(left)] == pytest.approx(
            [value[0] for value in expected if not isinstance(value, str)]
        )

    def test_scores_of_an_environment_without_scores_are_refused_by_name(self) -> None:
        objective = method_of("gigpo", MethodsSection(gigpo=GigpoSection(reward="score"))).objective
        with pytest.raises(RolloutError, match='gives no scores; set the method\'s reward = "success"'):
            collect(world=NoScores(), objective=objective)

    def test_a_reward_that_always_raises_gives_no_samples_and_says_which_error(self) -> None:
        def reward(one: Episode) -> float:
            raise ValueError(one.id)

        batch = collect(objective=GroupRelative(reward=reward))
        assert_accounted(batch)
        assert batch.samples == ()
        assert set(batch.discarded) == {"left its group: the reward failed (ValueError)"}

    @pytest.mark.parametrize("method", ["gigpo", "grpo", "reinforce"])
    def test_equal_rewards_give_no_samples(self, method: str) -> None:
        objective = METHODS[method].objective
        assert isinstance(objective, GroupRelative)
        batch = collect(objective=replace(objective, reward=lambda one: 0.1))
        assert_accounted(batch)
        assert (batch.samples == ()) is (
            method != "gigpo"
        )  # equal rewards after different turns: returns differ
