"""Rewords the expert's reasoning so that a few layers can follow it.

A tiny model answers well when the answer comes right after the name that it is about, and copies well in the
order of its prompt. So what is at hand, what has been seen, what is in place and where the agent stands become
names with answers ("Here? apple 1 no, cup 1 yes."). Things and places are gone through in the order of the
admissible actions: things up to the wanted one, places up to the first that is new. What is decided stays the
expert's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from actfirst.environments.alfworld.belief import kind_of, recall
from actfirst.environments.alfworld.expert import expert_turn
from actfirst.environments.alfworld.instruction import read_instruction
from actfirst.environments.solving import Demonstrated
from actfirst.records import TurnContext

_NAME = r"[a-z]+ \d+"
_NOT_SEEN = re.compile(r"I have not seen a (\w+)\.")
_SEEN = re.compile(rf"I have seen (\w+) (\d+) at ({_NAME})\.")
_TAKEN_HERE = re.compile(
    rf"I have seen ({_NAME}) at {_NAME}\. The next step is to take it\. I am at {_NAME} now\."
)
_SO_FAR = re.compile(r"So far (?:one|no) (\w+) is in [^.]*\.")
_THERE = (
    (re.compile(rf"I am not at ({_NAME}) now\."), r"There? \1 no."),
    (re.compile(rf"I am at ({_NAME}) now, but it is closed\."), r"There? \1 closed."),
    (re.compile(rf"I am at ({_NAME}) now\."), r"There? \1 yes."),
)
_HERE = re.compile(rf"I am at ({_NAME})")
_PLACES = re.compile(
    rf"Places: ((?:{_NAME} \w+(?:, )?)+)\."
    rf"(?: The first new place is {_NAME}\.| (I am at {_NAME}, which is new and closed\.))?"
)


def reasoned_turn(context: TurnContext) -> Demonstrated:
    """The expert's turn in the words of the pocket models. Phrases that carry nothing do not vary."""
    turn = expert_turn(context)
    at_hand = _at_hand(context.observation.admissible)
    pair = read_instruction(context.instruction).kind == "pick2"
    placed = _placed(context) if pair else {}
    count = 2 if pair else 1
    text = _SO_FAR.sub(lambda m: _in_place(m[1], placed), turn.reasoning)
    wanted = _TAKEN_HERE.search(text)
    if wanted and wanted[1] in at_hand:
        text = _TAKEN_HERE.sub(f"{_here(at_hand, wanted[1], placed)} The next step is to take it.", text)
    else:
        text = text.replace("I hold nothing.", f"I hold nothing. {_here(at_hand, '', placed)}")
    text = _NOT_SEEN.sub(lambda m: _sought(m[1], count, placed), text)
    text = _SEEN.sub(lambda m: _sought(m[1], int(m[2]), placed, m[3]), text)
    for pattern, answer in _THERE:
        text = pattern.sub(answer, text)
    here = _HERE.search(text)
    text = _PLACES.sub(lambda m: _up_to_first_new(m, here[1] if here else ""), text)
    return Demonstrated(text, turn.action)


def _at_hand(admissible: Sequence[str]) -> list[str]:
    """What could be taken now, in the order of the admissible actions."""
    return [
        action.split(" from ")[0].removeprefix("take ") for action in admissible if action.startswith("take ")
    ]


def _here(at_hand: Sequence[str], wanted: str, placed: Mapping[str, str]) -> str:
    """Each thing at hand with an answer, up to the wanted one."""
    answers: list[str] = []
    for name in at_hand:
        answers.append(f"{name} {'yes' if name == wanted else 'placed' if name in placed else 'no'}")
        if name == wanted:
            break
    return f"Here? {', '.join(answers) or 'nothing'}."


def _placed(context: TurnContext) -> dict[str, str]:
    """For a task about two objects: those that are in place already, and the place, which both must share."""
    goal, belief = read_instruction(context.instruction), recall(context)
    inside = {
        home: [item for item in belief.contents.get(home, ()) if kind_of(item) == goal.item]
        for home in belief.of_kind(goal.place)
    }
    best = max(inside, key=lambda home: len(inside[home]), default="")
    return dict.fromkeys(inside.get(best, ()), best)


def _in_place(kind: str, placed: Mapping[str, str]) -> str:
    answers = (f"{name} in {placed[name]}" if name in placed else f"{name} no" for name in _named(kind, 2))
    return f"Placed? {', '.join(answers)}."


def _sought(kind: str, last: int, placed: Mapping[str, str], place: str = "") -> str:
    """Objects are asked about in the order of their numbers; the last one was seen if it has a place."""
    names = [name for name in _named(kind, last) if name not in placed]
    answers = [f"{name} no" for name in (names[:-1] if place else names)]
    if place:
        answers.append(f"{kind} {last} yes, at {place}")
    return f"Seen? {', '.join(answers)}."


def _named(kind: str, last: int) -> list[str]:
    return [f"{kind} {number}" for number in range(1, last + 1)]


def _up_to_first_new(match: re.Match[str], here: str) -> str:
    if match[2]:  # it is closed and the agent stands before it: nothing else has to be considered
        return match[2]
    listed: list[str] = []
    for entry in match[1].split(", "):
        place, _, mark = entry.rpartition(" ")
        if place == here:
            continue
        listed.append(entry)
        if mark == "new":
            break
    return f"Places? {', '.join(listed)}."
