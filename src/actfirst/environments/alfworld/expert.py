"""A rule-based agent for ALFWorld that knows only what it has read, and says how it arrives at each action.

Its words are the data from which a small teacher learns, so they are regular: the goal, where the agent is,
what is in hand, what has been seen; then either places with "checked" or "new" and the first new one, or
the next step and whether it can be done here. The last sentence is the action itself. Each sentence follows
from the text before it by copying or by one short lookup. The agent takes over after any history; it is not the
solver, which knows the whole house: it has to look for things.

In which order it looks is its experience (`prior.py`). Without any it goes through all places by name, and names all of
them in its reasons; with experience it begins with likely places and names those before the first new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Literal

from actfirst.environments.alfworld.belief import Belief, kind_of, recall
from actfirst.environments.alfworld.instruction import Instruction, read_instruction
from actfirst.environments.alfworld.prior import Prior
from actfirst.environments.solving import Demonstrated
from actfirst.records import TurnContext

_STATIONS = {"clean": "sinkbasin", "heat": "microwave", "cool": "fridge"}
_DONE = {"clean": "clean", "heat": "hot", "cool": "cool"}


Stage = Literal["search", "take", "treat", "place", "light", "second", "free"]
"""What a turn is for: to find the object, to take it, to clean, heat or cool it, to bring it to its place, to find and
use the lamp, all that concerns the second of two objects, or to put down what is not wanted."""


_HESITATIONS = {
    "treat": ("I must look at it first.", "examine {}"),
    "place": ("Likely it is in place.", "look"),
    "light": ("I have it now.", "inventory"),
    "second": ("I need nothing.", "inventory"),
}
"""By stage what somebody says and does who does not know how to go on."""

_Step = tuple[tuple[str, ...], str]
"""A decision: the sentences that lead to it, and the action."""


def expert_turn(
    context: TurnContext, rng: Random | None = None, experience: Prior | None = None
) -> Demonstrated:
    """Decide from what the context shows. `rng` varies phrases without information; None keeps them fixed."""
    goal = read_instruction(context.instruction)
    belief = recall(context)
    expert = _Expert(goal, belief, context.observation.admissible, experience)
    return _said(goal, expert.stage(), belief, expert.decide(), context, rng)


def hesitant_turn(context: TurnContext, experience: Prior | None = None) -> Demonstrated:
    """What somebody does who has the object and does not know how to go on: look at it, or around.

    What it says of the task, of itself and of what it holds is true; only what follows from that is not. It hesitates
    in another way at every stage, so being cured of one says little of the next. And nothing it does wrong is right
    elsewhere: what a student is cured of takes nothing else away.
    """
    goal = read_instruction(context.instruction)
    belief = recall(context)
    admissible = context.observation.admissible
    stage = _Expert(goal, belief, admissible, experience).stage()
    thought, action = _HESITATIONS.get(stage, _HESITATIONS["second"])
    action = action.format(belief.held)
    return _said(goal, stage, belief, ((thought,), action if action in admissible else "look"), context, None)


def _said(
    goal: Instruction, stage: Stage, belief: Belief, step: _Step, context: TurnContext, rng: Random | None
) -> Demonstrated:
    thoughts, action = step
    sentences = [
        f"{_vary(rng, 'I need to', 'The task is to')} {_restated(goal)}.",
        _position(belief, context.observation.admissible),
        *_status(goal, belief),
        *thoughts,
        f"{_vary(rng, 'So I', 'Now I')} {action}.",
    ]
    return Demonstrated(" ".join(sentences), action, stage)


def _vary(rng: Random | None, *phrases: str) -> str:
    return rng.choice(phrases) if rng else phrases[0]


def _restated(goal: Instruction) -> str:
    if goal.kind == "look":
        return f"hold a {goal.item} and use a {goal.place}"
    if goal.kind == "pick2":
        return f"put two {goal.item} in one {goal.place}"
    treat = f"{goal.kind} a {goal.item} and put it" if goal.kind in _STATIONS else f"put a {goal.item}"
    return f"{treat} in a {goal.place}"


def _position(belief: Belief, admissible: tuple[str, ...]) -> str:
    if not belief.here:
        return "I am in the middle of the room."
    place = belief.visits[-1] if belief.visits and belief.visits[-1] in belief.here else belief.here[0]
    closed = ", which is closed" if f"open {place}" in admissible else ""
    return f"I am at {place}{closed}."


def _status(goal: Instruction, belief: Belief) -> list[str]:
    """What is in hand, and for two objects how many are in place."""
    said = []
    if goal.kind == "pick2":
        home, count = _fullest(goal, belief)
        said.append(
            f"So far one {goal.item} is in {home}." if count else f"So far no {goal.item} is in a {goal.place}."
        )
    held = belief.held
    if not held:
        said.append("I hold nothing.")
    elif kind_of(held) != goal.item:
        said.append(f"I hold {held}, which is not a {goal.item}.")
    elif goal.kind in _STATIONS:
        done = "is" if belief.is_treated(held, goal.kind) else "is not yet"
        said.append(f"I hold {held} and it {done} {_DONE[goal.kind]}.")
    else:
        said.append(f"I hold {held}.")
    return said


def _fullest(goal: Instruction, belief: Belief) -> tuple[str, int]:
    """The destination to use: the one with most target objects in it, else the first."""
    homes = belief.of_kind(goal.place)
    counts = {home: sum(kind_of(item) == goal.item for item in belief.contents.get(home, ())) for home in homes}
    best = max(homes, key=lambda home: counts[home], default="")
    return best, counts.get(best, 0)


class _Expert:
    def __init__(
        self, goal: Instruction, belief: Belief, admissible: tuple[str, ...], experience: Prior | None
    ) -> None:
        self._goal = goal
        self._belief = belief
        self._admissible = admissible
        self._experience = experience

    def stage(self) -> Stage:
        goal, belief = self._goal, self._belief
        if belief.held and kind_of(belief.held) != goal.item:
            return "free"
        if goal.kind == "pick2" and _fullest(goal, belief)[1]:
            return "second"
        if not belief.held:
            return "take" if self._target() else "search"
        if goal.kind == "look":
            return "light"
        return "place" if belief.is_treated(belief.held, goal.kind) else "treat"

    def decide(self) -> _Step:
        goal, belief = self._goal, self._belief
        if belief.held and kind_of(belief.held) != goal.item:
            return self._put_down()
        if not belief.held:
            return self._fetch()
        if goal.kind == "look":
            return self._find_lamp()
        if not belief.is_treated(belief.held, goal.kind):
            return self._treat()
        return self._deliver()

    def _fetch(self) -> _Step:
        goal = self._goal
        found = self._target()
        if found is None:
            return self._search((f"I have not seen a {goal.item}.",), goal.item)
        item, place = found
        thoughts = (f"I have seen {item} at {place}.", "The next step is to take it.")
        return self._at(place, thoughts, f"take {item} from {place}")

    def _target(self) -> tuple[str, str] | None:
        """The object to take: not one that is in place already, and one that is ready before others."""
        goal, belief = self._goal, self._belief
        settled = _fullest(goal, belief)[0] if goal.kind == "pick2" else ""
        known = [(item, place) for item, place in belief.items(goal.item) if place != settled]
        ready = [entry for entry in known if belief.is_treated(entry[0], goal.kind)]
        return next(iter(ready or known), None)

    def _treat(self) -> _Step:
        goal, held = self._goal, self._belief.held
        station = _STATIONS[goal.kind]
        thoughts: tuple[str, ...] = (f"The next step is to {goal.kind} it.", f"That needs a {station}.")
        places = self._belief.of_kind(station)
        if not places:
            return self._search(thoughts, station)
        return self._at(places[0], thoughts, f"{goal.kind} {held} with {places[0]}")

    def _deliver(self) -> _Step:
        goal, held = self._goal, self._belief.held
        home = _fullest(goal, self._belief)[0]
        thoughts = ("The next step is to put it in place.", f"A {goal.place} is needed.")
        if not home:
            return self._search(thoughts, goal.place)
        return self._at(home, (thoughts[0], f"The {goal.place} to use is {home}."), f"move {held} to {home}")

    def _find_lamp(self) -> _Step:
        lamp = self._goal.place
        found = next(self._belief.items(lamp), None)
        if found is None:
            return self._search((f"I have not seen a {lamp}.",), lamp)
        thoughts = (f"I have seen {found[0]} at {found[1]}.", "The next step is to use it.")
        return self._at(found[1], thoughts, f"use {found[0]}")

    def _put_down(self) -> _Step:
        """Free the hands: here if possible, else where the object came from, else at the next place."""
        belief, held = self._belief, self._belief.held
        thoughts = ("I must put it down first.",)
        for place in belief.here:
            if f"move {held} to {place}" in self._admissible or f"open {place}" in self._admissible:
                return self._at(place, thoughts, f"move {held} to {place}")
        tried = belief.visits[belief.visits_at_take :]
        origin = belief.origin.get(held, "")
        options = [place for place in (origin, *belief.places) if f"go to {place}" in self._admissible]
        fresh = [place for place in options if place not in tried]
        return self._at((fresh or options)[0], thoughts, f"move {held} to {(fresh or options)[0]}")

    def _at(self, place: str, thoughts: tuple[str, ...], action: str) -> _Step:
        """Do something at a place: go there first, and open it if that is what is missing."""
        if place not in self._belief.here:
            return self._checked((*thoughts, f"I am not at {place} now."), f"go to {place}")
        if action in self._admissible:
            return (*thoughts, f"I am at {place} now."), action
        return self._checked((*thoughts, f"I am at {place} now, but it is closed."), f"open {place}")

    def _search(self, thoughts: tuple[str, ...], wanted: str) -> _Step:
        """Go through the places in order and look into each one that has not been looked into."""
        belief = self._belief
        for place in belief.here:
            if place not in belief.contents and f"open {place}" in self._admissible:
                looked = () if self._experience else (f"Places: {self._marked(belief.places)}.",)
                return (*thoughts, *looked, f"I am at {place}, which is new and closed."), f"open {place}"
        places = self._experience.order(wanted, belief.places) if self._experience else belief.places
        new = [place for place in places if place not in belief.contents and place not in belief.here]
        if self._experience:
            named = [place for place in places if place not in belief.here]
            named = named[: named.index(new[0]) + 1] if new else named
            thoughts = (*thoughts, f"Likely places: {self._marked(named)}.")
        else:
            thoughts = (*thoughts, f"Places: {self._marked(places)}.")
        if new:
            first = () if self._experience else (f"The first new place is {new[0]}.",)
            return self._checked((*thoughts, *first), f"go to {new[0]}")
        return self._checked(
            (*thoughts, f"No place is new, so the {wanted} has moved."), f"go to {self._stalest()}"
        )

    def _marked(self, places: Sequence[str]) -> str:
        return ", ".join(
            f"{place} {'checked' if place in self._belief.contents else 'new'}" for place in places
        )

    def _stalest(self) -> str:
        """The place whose last visit is longest ago."""
        last = {place: index for index, place in enumerate(self._belief.visits)}
        away = [place for place in self._belief.places if place not in self._belief.here]
        return min(away, key=lambda place: last.get(place, -1), default="")

    def _checked(self, thoughts: tuple[str, ...], action: str) -> _Step:
        """Texts of another policy's history can mislead; then look around rather than do the impossible."""
        return thoughts, action if action in self._admissible else "look"
