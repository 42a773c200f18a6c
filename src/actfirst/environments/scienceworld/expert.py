"""A rule-based agent for some task types of ScienceWorld that knows only what it has read, and gives its reasons.

It knows the types `find-*` (focus on a thing, bring it to a box) and `use-thermometer` (measure a thing, bring it to
the box for what it measured), where living things and plants are, and what belongs to the outside and is not alive.
What it remembers is rebuilt from the whole history each turn, so it takes over after any history. In other tasks it
looks around.

Its words are regular: the task, where it is, what it holds, then the next step and what is missing for it. Each
sentence follows from the text before it by copying or by one lookup.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Literal

from actfirst.environments.solving import Demonstrated
from actfirst.records import TurnContext

Stage = Literal["go", "focus", "tool", "take", "measure", "carry", "place", "lost"]
"""What a turn is for: to go where the thing is, to focus on it, all about the thermometer, to take the thing, to
measure it, to go where the box is, to put it there, or to look around because nothing else is known."""

_FIND = re.compile(
    r"find a\(n\) (.+?)\. First, focus on the thing\. Then, move it to the (\w+ box) in the ([\w ]+)\."
)
_MEASURE = re.compile(
    r"measure the temperature of (.+?), which is located around the ([\w ]+)\. .*? above (\S+) degrees celsius, "
    r"place it in the (\w+ box)\. .*? below \S+ degrees celsius, place it in the (\w+ box)\. "
    r"The boxes are located around the ([\w ]+)\."
)
_ARRIVED = re.compile(
    r"You (?:teleport|move) to the ([\w ]+)\.|(?:room|outside location) is called the ([\w ]+)\."
)
_TAKEN = re.compile(r"You move the (.+) to the inventory\.")
_FOCUSED = re.compile(r"You focus on the (.+)\.")
_MEASURED = re.compile(r"measures a temperature of (-?\d+) degrees celsius")
_POT = re.compile(r"a (flower pot \d+) \(containing an? ([\w ]+) in the (\w+) stage")
_LOOK = "look around"
_TOOL = "thermometer"
_HOMES = {"plant": "greenhouse"}
_ELSE = "outside"
_NOT_ALIVE = frozenset(("axe", "shovel", "wood", "fire pit", "fountain", "ground"))
_SURROUNDINGS = frozenset(
    ("agent", "air", "foundry", "greenhouse", "kitchen", "outside", "substance in fountain")
)
_ROOMS = (
    *("art studio", "bathroom", "bedroom", "foundry", "greenhouse", "hallway", "kitchen", "living room"),
    *("outside", "workshop"),
)


@dataclass(frozen=True, slots=True)
class Goal:
    """What a task asks for. `limit` is empty where nothing is measured; else `box` is for above it and `below` for
    below it."""

    thing: str
    room: str
    box: str
    home: str
    limit: str = ""
    below: str = ""


def read_goal(instruction: str) -> Goal | None:
    if found := _FIND.search(instruction):
        thing, box, home = found.groups()
        return Goal(thing, _HOMES.get(thing, _ELSE), box, home)
    if found := _MEASURE.search(instruction):
        thing, room, limit, box, below, home = found.groups()
        return Goal(thing, room, box, home, limit, below)
    return None


@dataclass(slots=True)
class Memory:
    """What was read: where the agent is, the names by which it focused on and took things, what was measured, and in
    which pot a plant stands."""

    room: str = ""
    focused: list[str] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    measured: str = ""
    pots: dict[str, str] = field(default_factory=dict)


def recall(context: TurnContext) -> Memory:
    memory = Memory()
    seen = [*(pair.observation for pair in context.history), context.observation.text]
    for action, text in zip(["", *(pair.action for pair in context.history)], seen):
        if arrived := _ARRIVED.search(text):
            memory.room = arrived.group(1) or arrived.group(2)
        if _FOCUSED.search(text):
            memory.focused.append(action.removeprefix("focus on "))
        if _TAKEN.search(text):
            memory.held.append(action.removeprefix("pick up "))
        if measured := _MEASURED.search(text):
            memory.measured = measured.group(1)
        for pot, plant, stage in _POT.findall(text):
            memory.pots[f"{stage} {plant}"] = pot
    return memory


_Step = tuple[Stage, tuple[str, ...], str]
"""A decision: its stage, the sentences that lead to it, and the action."""


def expert_turn(context: TurnContext) -> Demonstrated:
    """Decide from what the context shows."""
    goal, memory = read_goal(context.instruction), recall(context)
    if goal is None or context.observation.admissible[:1] == ("0",):
        return _lost(context)
    return _said(goal, memory, _Expert(context, goal, memory).decide())


def forgetful_turn(context: TurnContext, rng: Random) -> Demonstrated:
    """What the expert would do if less were asked for: it goes on without the thing, or without measuring it. Where
    nothing is left to forget it takes another room, or another place, for the right one. What it says of the task, of
    itself and of what it holds is true."""
    goal, memory = read_goal(context.instruction), recall(context)
    if goal is None or context.observation.admissible[:1] == ("0",):
        return _lost(context)
    right = _Expert(context, goal, memory)
    stage, thoughts, action = right.decide()
    if stage == "take":
        stage, thoughts, action = right.carry("take")
    elif stage == "measure":
        _, thoughts, action = _Expert(context, replace(goal, limit=""), memory).decide()
    elif stage == "carry":
        home = rng.choice([room for room in _ROOMS if room not in (goal.home, memory.room)])
        _, thoughts, action = _Expert(context, replace(goal, home=home), memory).decide()
    elif stage == "place":
        held, _, box = action.removeprefix("move ").rpartition(" to ")
        listed = frozenset(context.observation.admissible)
        others = [f"move {held} to {one}" for one in context.observation.objects if one != box]
        action = rng.choice([other for other in others if other in listed] or [_LOOK])
        thoughts = (f"It goes to the {action.rpartition(' to ')[2]}.",)
    return _said(goal, memory, (stage, thoughts, action))


def _lost(context: TurnContext) -> Demonstrated:
    """Answers a question with its first choice; looks around where the task is not known."""
    admissible = context.observation.admissible
    if admissible[:1] == ("0",):
        return Demonstrated("This is a question. I take the first choice.", "0", "lost")
    return Demonstrated("I do not know this task.", _LOOK, "lost")


def _said(goal: Goal, memory: Memory, step: _Step) -> Demonstrated:
    stage, thoughts, action = step
    task = f"measure {goal.thing} in the {goal.room}" if goal.limit else f"find a {goal.thing}"
    sentences = (
        f"I need to {task}.",
        f"I am in the {memory.room}.",
        f"I hold {' and '.join(memory.held) or 'nothing'}.",
        *thoughts,
    )
    return Demonstrated(" ".join(sentences), action, stage)


class _Expert:
    def __init__(self, context: TurnContext, goal: Goal, memory: Memory) -> None:
        self._goal = goal
        self._memory = memory
        self._objects = context.observation.objects
        self._admissible = frozenset(context.observation.admissible)

    def decide(self) -> _Step:
        goal, memory = self._goal, self._memory
        if goal.limit:
            if _TOOL not in memory.held:
                return self._at("tool", "kitchen", "I need the thermometer.", f"pick up {_TOOL}")
            if _TOOL not in memory.focused:
                return "tool", ("The next step is to focus on the thermometer.",), f"focus on {_TOOL}"
        focused = [name for name in memory.focused if name != _TOOL]
        if not focused:
            return self._focus()
        held = [name for name in memory.held if name != _TOOL]
        if not held:
            return self._take(focused[-1])
        return self._bring(held[-1])

    def _focus(self) -> _Step:
        goal, memory = self._goal, self._memory
        if memory.room != goal.room:
            return self._at("go", goal.room, f"The {goal.thing} is in the {goal.room}.", "")
        if goal.thing == "plant" and not memory.pots:
            return "go", ("I do not know the pots.",), _LOOK
        name = next((one for one in self._candidates() if f"focus on {one}" in self._admissible), "")
        if not name and not goal.limit:
            return "lost", (f"I do not see a {goal.thing}.",), _LOOK
        name = name or goal.thing
        return "focus", (f"I see {name}.", "The next step is to focus on it."), f"focus on {name}"

    def _candidates(self) -> Iterable[str]:
        goal = self._goal
        if goal.limit:
            return _names(goal.thing, self._objects)
        if goal.thing == "plant":
            return [one for one in self._objects if one in self._memory.pots]
        things = [one for one in self._objects if one not in _SURROUNDINGS and not one.startswith("door")]
        if goal.thing == "non-living thing":
            return [one for one in things if one in _NOT_ALIVE]
        return [one for one in things if one not in _NOT_ALIVE]

    def _take(self, focused: str) -> _Step:
        goal = self._goal
        pot = self._memory.pots.get(focused, "")
        said = (f"I have focused on {focused}.", *((f"It is in {pot}.",) if pot else ()))
        if self._memory.room != goal.room:
            return self._at("take", goal.room, said[0], "")
        names = (pot,) if pot else (focused, *_names(goal.thing, self._objects))
        return "take", (*said, "The next step is to take it."), self._listed("pick up {}", names)

    def _bring(self, held: str) -> _Step:
        """Things warm up and cool down on the way, so they are measured beside the boxes."""
        goal, memory = self._goal, self._memory
        if memory.room != goal.home:
            return self.carry("carry")
        names = (held, held.rpartition(" ")[0], goal.thing)
        if not goal.limit:
            thoughts = (f"It goes to the {goal.box} in the {goal.home}.", "I am there.")
            return "place", thoughts, self._listed(f"move {{}} to {goal.box}", names)
        if not memory.measured:
            return "measure", ("I have not measured it.",), self._listed(f"use {_TOOL} on {{}}", names)
        above = float(memory.measured) > float(goal.limit)
        box = goal.box if above else goal.below
        said = f"It measures {memory.measured}, {'above' if above else 'below'} {goal.limit}."
        return "place", (said, f"It goes to the {box}."), self._listed(f"move {{}} to {box}", names)

    def carry(self, stage: Stage) -> _Step:
        """Go where the thing belongs."""
        goal = self._goal
        box = "a box" if goal.limit else f"the {goal.box}"
        return self._at(stage, goal.home, f"It goes to {box} in the {goal.home}.", "")

    def _at(self, stage: Stage, room: str, said: str, action: str) -> _Step:
        """Do something in a room: go there first."""
        if self._memory.room == room:
            return stage, (said, "I am there."), action if action in self._admissible else _LOOK
        go = f"teleport to {room}"
        return stage, (said, "I am not there."), go if go in self._admissible else _LOOK

    def _listed(self, form: str, names: Iterable[str]) -> str:
        """The command with the first name by which it is listed. What the list names otherwise ("component" for a wire)
        is said with the first name: the simulator understands it."""
        commands = [form.format(name) for name in names if name]
        return next((command for command in commands if command in self._admissible), commands[0])


def _names(thing: str, objects: Iterable[str]) -> list[str]:
    """How a thing may be called here: by a name in sight all of whose words it has, the longest first, or in full."""
    words = thing.lower().split()
    shown = [one for one in objects if set(one.split()) <= set(words)]
    return [*sorted(shown, key=len, reverse=True), thing, " ".join(words[:-1])]
