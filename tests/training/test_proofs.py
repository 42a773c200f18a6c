"""What start-up proves of the student: fast requests are answered with actions (paper, "Thinking Budget")."""

from __future__ import annotations

import pytest

from actfirst.errors import ConfigError
from actfirst.records import Mode, Reference, Task
from actfirst.references.base import NoReferences
from actfirst.training.proofs import doubt_about, try_fast_actions
from tests.support.collecting import GENERATION, Bench, bench, corridor_tasks, perfect
from tests.support.scripted import Request, Script

BLOCK = "<think>\n\n</think>\n\n"


def thinks_whenever_it_may(request: Request) -> str:
    closed = request.text.endswith((BLOCK, "<action>"))
    return perfect(request) if closed else "<think>\n" + "Let me see. " * 60


def stubborn(request: Request) -> str:
    return "<think>\n" + "Let me see. " * 60


def babbling(request: Request) -> str:
    return "You are in a room. " * 9


def made(script: Script, setting: str = "closed") -> Bench:
    return bench("actfirst", script, generation=GENERATION.model_copy(update={"fast_reasoning": setting}))


async def doubt(script: Script, setting: str = "closed") -> str:
    player = made(script, setting).collector.player
    return doubt_about(await try_fast_actions(player, corridor_tasks(4)), player.policy)


async def test_four_requests_are_made_in_both_modes_and_again_the_same() -> None:
    one, other = made(perfect), made(perfect)
    answers = await try_fast_actions(one.collector.player, corridor_tasks(4))
    await try_fast_actions(other.collector.player, corridor_tasks(4))
    assert [answer.mode for answer in answers] == [Mode.NEXT_ACTION, Mode.INVERSE_DYNAMICS] * 2
    assert one.engine.requests == other.engine.requests


async def test_without_references_all_four_predict_the_next_action() -> None:
    player = made(perfect).playing(references=NoReferences()).player
    assert [answer.mode for answer in await try_fast_actions(player, corridor_tasks(4))] == [
        Mode.NEXT_ACTION
    ] * 4


async def test_a_student_that_acts_is_not_doubted() -> None:
    assert await doubt(perfect) == ""
    assert await doubt(thinks_whenever_it_may) == ""


@pytest.mark.parametrize(
    ("script", "setting", "remedy"),
    [
        (thinks_whenever_it_may, "none", 'set rollout.generation.fast_reasoning = "closed"'),
        (stubborn, "closed", 'set rollout.generation.fast_reasoning = "prefill"'),
        (stubborn, "none", 'set rollout.generation.fast_reasoning = "closed"'),
    ],
)
async def test_a_student_that_reasons_instead_is_refused_with_what_to_change(
    script: Script, setting: str, remedy: str
) -> None:
    with pytest.raises(ConfigError, match="asked for 4 fast actions, and 0 could be read") as refused:
        await doubt(script, setting)
    assert str(refused.value).endswith(remedy)


async def test_a_student_that_answers_nonsense_may_learn_and_is_only_mentioned() -> None:
    said = await doubt(babbling)
    assert "0 could be read within rollout.generation.fast_limit = 60 tokens" in said
    assert "'You are in a room." in said


async def test_few_actions_are_mentioned_and_half_of_them_are_enough() -> None:
    def towards_the_reference(request: Request) -> str:
        return perfect(request) if request.is_inverse_dynamics else babbling(request)

    assert await doubt(towards_the_reference) == ""

    answers = iter([True, False, False, False])
    said = await doubt(lambda request: perfect(request) if next(answers) else stubborn(request))
    assert "1 could be read" in said


async def test_a_task_that_cannot_begin_is_passed_over() -> None:
    class Broken(NoReferences):
        def get(self, task: Task) -> Reference | None:
            from actfirst.errors import TaskError

            if task == corridor_tasks(1)[0]:
                raise TaskError("lost")
            return None

    player = made(perfect).playing(references=Broken()).player
    assert len(await try_fast_actions(player, corridor_tasks(4))) == 3
