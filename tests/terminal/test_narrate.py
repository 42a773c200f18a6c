"""Watching a model: what is shown of a turn, and that watching changes nothing."""

from __future__ import annotations

import io

from rich.console import Console

from actfirst.environments.pool.inline import InlinePool
from actfirst.methods.acting import EpisodeTools, Guided, Plan, Policy, Progress, ThinkThenAct
from actfirst.records import Episode
from actfirst.rollout.episode import EpisodeKey, play
from actfirst.terminal.narrate import Narrated, reasoning, show_end
from tests.support.collecting import GENERATION, encoder, perfect
from tests.support.kinds import RULES, TEMPLATE_SETS
from tests.support.scripted import Request, Script, ScriptedEngine
from tests.support.toy_world import CorridorReferences, CorridorWorld

WEST = "'go west'"  # as the admissible actions of a prompt list it


async def watch(plan: Plan, script: Script, narrated: bool = True) -> tuple[Episode, str]:
    world, rules = CorridorWorld(), RULES["alfworld"]
    task = world.tasks("train")[1]
    console = Console(file=io.StringIO(), width=140, color_system=None)
    policy = Policy(ScriptedEngine(encoder(), script), encoder(), TEMPLATE_SETS["alfworld"], GENERATION)
    reference = CorridorReferences().get(task) if plan.needs_reference else None
    actor = plan.begin(EpisodeTools(policy, rules, reference, Progress()))
    if narrated:
        actor = Narrated(console, actor, rules)
    async with InlinePool(world).lease() as environment:
        key = EpisodeKey(0, 0, task, 1)
        episode = await play(key, environment, actor, rules, world.turn_limit, reference=reference)
    show_end(console, episode)
    assert isinstance(console.file, io.StringIO)
    return episode, console.file.getvalue()


async def test_thinking_action_and_cost_of_every_turn_are_shown() -> None:
    episode, shown = await watch(ThinkThenAct(), perfect)
    assert "pull the lever in the last room" in shown
    assert shown.count("I know the way.") == len(episode.turns) == 3
    assert "<think>" not in shown
    assert "> go east\n  think, then act:" in shown
    assert "solved: 3 turns" in shown


async def test_verdicts_of_guided_turns_are_shown() -> None:
    def wrong_way(request: Request) -> str:
        return f"<action>go {'west' if WEST in request.text else 'east'}</action>"

    _, shown = await watch(Guided(), wrong_way)
    assert "> go east\n  inverse dynamics:" in shown
    assert "as in the reference" in shown
    assert "left the reference: guidance ends" in shown
    assert "not solved" in shown


async def test_an_action_that_is_not_admissible_is_marked() -> None:
    _, shown = await watch(ThinkThenAct(), lambda request: "<think>hm</think><action>fly</action>")
    assert "> fly  not admissible" in shown


async def test_watching_changes_nothing() -> None:
    watched, _ = await watch(ThinkThenAct(), perfect)
    alone, _ = await watch(ThinkThenAct(), perfect, narrated=False)
    assert [turn.response for turn in watched.turns] == [turn.response for turn in alone.turns]
    assert [turn.action for turn in watched.turns] == [turn.action for turn in alone.turns]


def test_reasoning_that_never_ends_is_shown_whole() -> None:
    assert reasoning("<think>\nand so on") == "and so on"
    assert reasoning("<think>a</think>\n<action>b</action>") == "a"
