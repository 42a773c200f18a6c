"""A person plays one task in the terminal."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from rich.columns import Columns
from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from actfirst.environments.base import Environment, World
from actfirst.errors import TaskError
from actfirst.records import Observation, Reference, Task

QUIT, HINT, AGAIN = ("q", "quit", "exit"), ("h", "hint", "?"), ("l", "list", "look again")
_HELP = "a number or a command; h: hint, l: list the actions again, q: quit"


def find_task(world: World, splits: Sequence[str], wanted: str | None, seed: int | None) -> Task:
    """The task with that id (or the only one whose id contains it), or else one drawn from `splits`."""
    if wanted is None:
        tasks = [task for split in splits for task in world.tasks(split)]
        return random.Random(seed).choice(tasks)
    everything = [task for split in world.splits() for task in world.tasks(split)]
    found = [task for task in everything if task.id == wanted] or [t for t in everything if wanted in t.id]
    if len(found) != 1:
        shown = ", ".join(task.id for task in (found or everything)[:3])
        raise TaskError(f"{len(found) or 'no'} tasks of {world.name} match {wanted!r}; ids look like {shown}")
    return found[0]


def play_by_hand(
    console: Console,
    read: Callable[[str], str],
    environment: Environment,
    task: Task,
    turn_limit: int,
    reference: Reference | None = None,
) -> Observation:
    """Play until the task is over, the turns are used up, or the input ends. Returns what was seen last."""
    instruction, observation = environment.reset(task)
    guide = Guide(reference)
    console.print(
        Panel(Text(instruction), title=f"your task ({task.id})", title_align="left", border_style="cyan")
    )
    console.print(_HELP, style="dim", highlight=False)
    show(console, observation)
    turns = 0
    while not observation.done and turns < turn_limit:
        action = _ask(console, read, observation, guide, f"turn {turns + 1}/{turn_limit} > ")
        if action is None:
            console.print("\ngood-bye", style="dim")
            return observation
        observation = environment.step(action)
        guide.follow(action)
        turns += 1
        show(console, observation)
    _verdict(console, observation, turns)
    return observation


class Guide:
    """Hints from a reference: its next action wherever the player stands on its path."""

    def __init__(self, reference: Reference | None) -> None:
        self._steps = reference.steps if reference else ()
        states = (
            [reference.initial.state, *(step.observation.state for step in reference.steps)]
            if reference
            else []
        )
        # A state that is met twice keeps its later step, so that hints lead on and not round in a circle.
        self._next = {state: step.action for state, step in zip(states, self._steps, strict=False) if state}
        self._followed = 0

    def follow(self, action: str) -> None:
        """Told of every move, for worlds that cannot tell their states apart."""
        on_path = 0 <= self._followed < len(self._steps) and self._steps[self._followed].action == action
        self._followed = self._followed + 1 if on_path else -1

    def hint(self, observation: Observation) -> str:
        if not self._steps:
            return "there is no reference for this task"
        if observation.state:
            action = self._next.get(observation.state)
        else:
            action = self._steps[self._followed].action if 0 <= self._followed < len(self._steps) else None
        return f"the reference would {action}" if action else "you are not on the reference's path"


def show(console: Console, observation: Observation) -> None:
    """What the player sees, and what the player may do."""
    console.print()
    console.print(Text(observation.text.strip()))
    if not observation.done:
        _list(console, observation)


def _ask(
    console: Console, read: Callable[[str], str], observation: Observation, guide: Guide, prompt: str
) -> str | None:
    while True:
        try:
            text = read(prompt).strip()
        except (EOFError, KeyboardInterrupt):
            return None
        word = text.lower()
        if word in QUIT:
            return None
        if word in HINT:
            console.print(guide.hint(observation), style="yellow", markup=False)
        elif word in AGAIN:
            _list(console, observation)
        elif text.isdecimal():
            if 1 <= int(text) <= len(observation.admissible):
                return observation.admissible[int(text) - 1]
            console.print(f"choose 1 to {len(observation.admissible)}", style="red")
        elif text:
            return text


def _list(console: Console, observation: Observation) -> None:
    numbered = [
        Text.assemble((f"{number:3d} ", "dim"), action)
        for number, action in enumerate(observation.admissible, 1)
    ]
    console.print(Columns(numbered, column_first=True, padding=(0, 3)))


def _verdict(console: Console, observation: Observation, turns: int) -> None:
    if observation.success:
        console.print(f"\nsolved in {turns} turns", style="bold green")
    elif observation.done:
        console.print(f"\nover after {turns} turns, score {observation.score:.0f}", style="bold yellow")
    else:
        console.print(f"\nnot solved: {turns} turns are all there are", style="bold red")
