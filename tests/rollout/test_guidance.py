"""The rules of reference guidance over whole rollouts (paper, Sections 4.1-4.3 and "Transition Consistency Checks")."""

from __future__ import annotations

import asyncio
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from actfirst.methods.acting import TrainingPoint
from actfirst.records import ActionSource, Verdict
from actfirst.rollout.collect import RolloutBatch
from actfirst.runs.lines import AlignmentCounts
from tests.support.collecting import Bench, bench, corridor_tasks, perfect, right_action
from tests.support.scripted import Request
from tests.support.toy_world import CorridorReferences


def collect(made: Bench, count: int = 4, index: int = 0) -> RolloutBatch:
    return asyncio.run(made.collector.collect(index, corridor_tasks(count), TrainingPoint()))


def step_of(request: Request) -> int:
    found = re.search(r"You are now at step (\d+)", request.text)
    return int(found.group(1)) if found else 1


def test_a_perfect_student_follows_its_references_to_the_end() -> None:
    made = bench("actfirst", perfect)
    batch = collect(made)
    assert all(episode.final is not None and episode.final.success for episode in batch.episodes)
    counts = AlignmentCounts.of(batch.episodes)
    assert counts.rates() == {"first_action": 100.0, "full_trajectory": 100.0, "turn_coverage": 100.0}
    assert {turn.source for e in batch.episodes for turn in e.turns} == {ActionSource.INVERSE_DYNAMICS}
    assert len(batch.samples) == batch.stats.transitions  # `all`: one response per visited context


def test_no_reference_observation_outside_inverse_dynamics_and_no_reference_action_anywhere() -> None:
    made = bench("actfirst", perfect)
    tasks = corridor_tasks(8)
    asyncio.run(made.collector.collect(0, tasks, TrainingPoint()))
    rooms = {task.id: CorridorReferences().get(task) for task in tasks}
    assert all(reference is not None for reference in rooms.values())
    inverse = [request for request in made.engine.requests if request.is_inverse_dynamics]
    others = [request.text for request in made.engine.requests if not request.is_inverse_dynamics]
    scored = [made.engine.encoder.decode(response.prompt_ids) for response in made.teacher.scored]  # type: ignore[attr-defined]
    assert inverse
    assert others
    assert len(scored) == len(others)
    for text in [*others, *scored]:
        # At step t the agent stands in room t, so a later room in the prompt could only come from a reference.
        step = int(found.group(1)) if (found := re.search(r"now at step (\d+)", text)) else 1
        assert all(int(room) <= step for room in re.findall(r"You are in room (\d+)", text))
        assert "reference" not in text.lower()
        assert "The lever clicks" not in text
    assert any("The lever clicks" in request.text for request in inverse)  # the check above can fail
    assert not any("hop east" in text for text in [*others, *scored, *(r.text for r in inverse)])


def test_a_pending_full_response_is_a_snapshot_unaffected_by_later_history() -> None:
    made = bench("actfirst", perfect)
    # Full responses are asked for late and answered last: all acting is over by then.
    made.engine.delay = lambda request: 0.0 if request.is_fast else 0.05
    batch = collect(made, 3)
    for sample in batch.samples:
        prompt = made.engine.encoder.decode(sample.prompt_ids)
        pairs = re.findall(r"\[Observation (\d+): ", prompt)
        assert [int(number) for number in pairs] == list(range(1, sample.turn))
        assert "I know the way" not in prompt


def test_an_invalid_proposal_leads_to_one_next_action_request_on_the_unchanged_context() -> None:
    def script(request: Request) -> str:
        if request.is_inverse_dynamics and step_of(request) == 2:
            return "<action>fly away</action>"
        return perfect(request)

    made = bench("actfirst", script)
    batch = asyncio.run(made.collector.collect(0, corridor_tasks(4)[2:3], TrainingPoint()))
    (episode,) = batch.episodes
    second = episode.turns[1]
    assert second.verdict is Verdict.INVALID_PROPOSAL
    assert [request.mode.value for request in second.requests] == ["inverse_dynamics", "next_action"]
    assert second.source is ActionSource.NEXT_ACTION
    fast = [request for request in made.engine.requests if request.is_fast]
    assert [request.is_inverse_dynamics for request in fast] == [True, True, False, False, False]
    assert step_of(fast[1]) == step_of(fast[2]) == 2
    assert episode.final is not None
    assert episode.final.success
    # The rejected proposal was never executed and never entered the history.
    assert not any("fly away" in request.text for request in made.engine.requests)


def test_without_fallback_the_rollout_ends_at_the_first_failed_check() -> None:
    wander = lambda request: (  # noqa: E731
        "<action>go west</action>" if request.is_fast and "'go west'" in request.text else perfect(request)
    )
    made = bench("actfirst-no-fallback", wander)
    batch = asyncio.run(made.collector.collect(0, corridor_tasks(4)[3:4], TrainingPoint()))
    (episode,) = batch.episodes
    assert [turn.verdict for turn in episode.turns] == [Verdict.ALIGNED, Verdict.DIVERGED]
    assert [sample.turn for sample in batch.samples] == [1, 2]  # the rollout ended: there is no third turn


def test_without_fallback_an_invalid_proposal_ends_the_rollout_and_its_request_is_counted() -> None:
    made = bench("actfirst-no-fallback", lambda request: "<action>fly away</action>")
    batch = collect(made, 1)
    assert batch.episodes[0].turns == ()
    assert [request.action for request in batch.episodes[0].unexecuted] == ["fly away"]
    assert batch.stats.fast_requests == 1
    assert AlignmentCounts.of(batch.episodes).guided == 1


def test_replay_executes_reference_actions_and_asks_for_no_fast_action() -> None:
    made = bench("replay-100", perfect)
    batch = collect(made, 4)
    assert AlignmentCounts.of(batch.episodes).guided == 0  # replayed, not guided
    assert all(episode.final is not None and episode.final.success for episode in batch.episodes)
    assert not any(request.is_fast for request in made.engine.requests)
    half = bench("replay-50", perfect)
    sources = [[turn.source for turn in episode.turns] for episode in collect(half, 4).episodes]
    assert sources[2] == [ActionSource.REFERENCE] * 2 + [ActionSource.NEXT_ACTION] * 2


ANSWERS = ("right", "wrong", "invalid", "garbage")


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(ANSWERS), min_size=8, max_size=8), st.integers(0, 3))
def test_guidance_never_comes_back(answers: list[str], place: int) -> None:
    """Whatever the student proposes: after the first failed check or invalid proposal, no inverse dynamics."""

    def script(request: Request) -> str:
        if not request.is_fast:
            return perfect(request)
        answer = answers[step_of(request) - 1] if request.is_inverse_dynamics else "right"
        wrong = "go west" if "'go west'" in request.text else "look"
        action = {"right": right_action(request), "wrong": wrong, "invalid": "fly"}.get(answer)
        return f"<action>{action}</action>" if action else "no idea, sorry"

    made = bench("actfirst", script)
    batch = asyncio.run(made.collector.collect(0, corridor_tasks(4)[place : place + 1], TrainingPoint()))
    (episode,) = batch.episodes
    verdicts = [turn.verdict for turn in episode.turns]
    broken = next((n for n, verdict in enumerate(verdicts) if verdict is not Verdict.ALIGNED), len(verdicts))
    assert all(verdict is Verdict.UNCHECKED for verdict in verdicts[broken + 1 :])
    for number, turn in enumerate(episode.turns):
        modes = [request.mode.value for request in turn.requests]
        if number < broken or (number == broken and verdicts[broken] is Verdict.DIVERGED):
            assert modes == ["inverse_dynamics"]
        elif number == broken:
            assert modes == ["inverse_dynamics", "next_action"]
        else:
            assert modes == ["next_action"]
    assert len(batch.samples) == len(episode.turns)
