"""Watching a model: what is shown of a turn, and that watching changes nothing."""

from __future__ import annotations

import io

from rich.console import Console

from actfirst.methods.acting import Acting, Guided, ThinkThenAct
from actfirst.records import Episode
from actfirst.rollout.play import EpisodeKey
from actfirst.terminal.narrate import Narrated, reasoning, show_end
from tests.support.collecting import bench, corridor_tasks, perfect
from tests.support.scripted import Request, Script

WEST = "'go west'"  # as the admissible actions of a prompt list it


async def watch(acting: Acting, script: Script, narrated: bool = True) -> tuple[Episode, str]:
    console = Console(file=io.StringIO(), width=140, color_system=None)
    player, task = bench("vanilla", script).collector.player, corridor_tasks(2)[1]
    episode = await player.play(EpisodeKey(0, 0, task, 1), Narrated(console, acting) if narrated else acting)
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
