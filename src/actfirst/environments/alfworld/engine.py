"""The native ALFWorld engine: plays one game as alfworld 0.4.2 on TextWorld 1.7.0 plays it, in pure Python.

Same text, same admissible commands in the same order, same outcome; no planner and no grammar at run time.
The rules of the domain are the `_offer*` methods (when a command is possible) and `_EFFECTS` (what it does).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from actfirst.environments.alfworld import wording
from actfirst.environments.alfworld.game import Game
from actfirst.environments.alfworld.problem import Fact, HeldInLight
from actfirst.environments.alfworld.state import State

Command = tuple[str, str, str]
"""What a command does: a key of `_EFFECTS` and its two arguments (empty where unused)."""


@dataclass(frozen=True, slots=True)
class _Effect:
    """`says` follows from the state after the changes, and holds places for the names of the two arguments. `adds` and
    `removes` are facts about the first argument."""

    says: str | Callable[[Game, State, str], str]
    adds: tuple[str, ...] = ()
    removes: tuple[str, ...] = ()
    moves: Callable[[State, str, str], None] | None = None


def _see(beginning: str) -> Callable[[Game, State, str], str]:
    def says(game: Game, state: State, place: str) -> str:
        return beginning.format(game.names[place]) + wording.receptacle(game, state, place)

    return says


_EFFECTS: Mapping[str, _Effect] = {
    "go": _Effect(_see("You arrive at {}. "), moves=lambda state, place, location: state.go(location)),
    "open": _Effect(_see("You open the {}. "), adds=("opened", "checked")),
    "close": _Effect("You close the {}.", removes=("opened",)),
    "take": _Effect("You pick up the {} from the {}.", moves=State.take),
    "move": _Effect("You move the {} to the {}.", moves=State.put),
    "clean": _Effect("You clean the {} using the {}.", adds=("isclean",)),
    "heat": _Effect("You heat the {} using the {}.", adds=("ishot",), removes=("iscool",)),
    "cool": _Effect("You cool the {} using the {}.", adds=("iscool",), removes=("ishot",)),
    # The grammar asks whether the lamp has ever been toggled, so it always says "on". TextWorld reports both
    # branches of the domain's conditional effect on `isOn`, the negative one last: it never holds.
    "use": _Effect("You turn on the {}.", adds=("istoggled",)),
    "slice": _Effect("You sliced the {} with the {}.", adds=("issliced",)),
    "look": _Effect(lambda game, state, _: wording.look(game, state), adds=("checked",)),
    "inventory": _Effect(lambda game, state, _: wording.inventory(game, state), adds=("checked",)),
    "help": _Effect(lambda *_: wording.HELP, adds=("checked",)),
    "examine receptacle": _Effect(wording.receptacle, adds=("checked",)),
    "examine object": _Effect(wording.appearance, adds=("checked",)),
}


class Engine:
    """One game in play. `commands` and `won` describe the state after the last `step` or `reset`."""

    commands: dict[str, Command]
    won: bool

    def __init__(self, game: Game) -> None:
        self.game = game
        self._travel: dict[str, dict[str, Command]] = {}
        self.opening = self.reset()

    def reset(self) -> str:
        """Back to the initial state; returns the first text, which ends with the task sentence."""
        self.state = State(self.game)
        self._refresh()
        return wording.opening(self.game, self.state)

    def step(self, command: str) -> str:
        """Submit a command and return the answer. One that is not admissible changes nothing."""
        found = self.commands.get(command.strip())
        if found is None:
            return wording.NOTHING_HAPPENS
        key, first, second = found
        effect, state, game = _EFFECTS[key], self.state, self.game
        if effect.moves is not None:
            effect.moves(state, first, second)
        for predicate in effect.adds:
            state.add(predicate, first)
        for predicate in effect.removes:
            state.remove(predicate, first)
        says = effect.says
        if isinstance(says, str):
            text = says.format(*(game.names[name] for name in (first, second) if name))
        else:
            text = says(game, state, first)
        self._refresh()
        return text

    def admissible(self) -> list[str]:
        """All commands that are possible now, in TextWorld's order; `help` is one of them."""
        return sorted(self.commands)

    @property
    def facts(self) -> set[Fact]:
        """The positive facts, as TextWorld reports them."""
        return self.state.facts

    @property
    def digest(self) -> str:
        return self.state.digest

    def _refresh(self) -> None:
        self.commands = self._offers()
        self.won = self._goal_reached()

    def _goal_reached(self) -> bool:
        game, state, goal = self.game, self.state, self.game.goal
        if isinstance(goal, HeldInLight):
            here = game.receptacles_at.get(state.location, ())
            return state.held in game.goal_objects and any(
                state.holds("istoggled", lamp) and any(lamp in state.contents(place) for place in here)
                for lamp in game.lamps
            )
        for place in game.goal_receptacles:
            good = 0
            for item in state.contents(place):
                if item in game.goal_objects and all(state.holds(wanted, item) for wanted in goal.properties):
                    good += 1
            if good >= goal.count:
                return True
        return False

    # -- when a command is possible

    def _offers(self) -> dict[str, Command]:
        held = self.state.held
        offers = dict(self._travel_from(self.state.location))
        offers["look"] = ("look", self.state.location, "")
        offers["inventory"] = ("inventory", self.game.agent, "")
        offers["help"] = ("help", self.game.agent, "")
        for place in self.game.receptacles_at.get(self.state.location, ()):
            self._offer_receptacle(offers, place)
        if held:
            # Upstream means to offer this for visible objects too; a misplaced comma in the domain forbids it.
            offers[f"examine {self.game.names[held]}"] = ("examine object", held, "")
            if held in self.game.knives:
                self._offer_slicing(offers, held)
        return offers

    def _travel_from(self, location: str) -> dict[str, Command]:
        """`go to` commands: not to what is at the same place, where going would change nothing."""
        known = self._travel.get(location)
        if known is None:
            known = {
                f"go to {self.game.names[place]}": ("go", place, there)
                for place, there in self.game.location_of.items()
                if there != location
            }
            self._travel[location] = known
        return known

    def _offer_receptacle(self, offers: dict[str, Command], place: str) -> None:
        game, state = self.game, self.state
        name, visible = game.names[place], True
        offers[f"examine {name}"] = ("examine receptacle", place, "")
        if place in game.openable:
            visible = state.holds("opened", place)
            if visible:
                offers[f"close {name}"] = ("close", place, "")
            else:
                offers[f"open {name}"] = ("open", place, "")
        for item in state.contents(place):
            abilities = game.abilities.get(item, frozenset())
            if visible and not state.held and "pickupable" in abilities:
                offers[f"take {game.names[item]} from {name}"] = ("take", item, place)
            if "toggleable" in abilities:
                offers[f"use {game.names[item]}"] = ("use", item, "")
        if state.held:
            self._offer_held(offers, state.held, place, visible)

    def _offer_held(self, offers: dict[str, Command], item: str, place: str, visible: bool) -> None:
        game = self.game
        thing, name, kind = game.names[item], game.names[place], game.receptacle_type.get(place, "")
        abilities = game.abilities.get(item, frozenset())
        if visible and (kind, game.object_type.get(item, "")) in game.can_contain:
            offers[f"move {thing} to {name}"] = ("move", item, place)
        if "cleanable" in abilities and kind in game.washers:
            offers[f"clean {thing} with {name}"] = ("clean", item, place)
        if "heatable" in abilities and kind == "microwavetype":
            offers[f"heat {thing} with {name}"] = ("heat", item, place)
        if "coolable" in abilities and kind == "fridgetype":
            offers[f"cool {thing} with {name}"] = ("cool", item, place)

    def _offer_slicing(self, offers: dict[str, Command], knife: str) -> None:
        names = self.game.names
        for item in self.state.objects_here():
            if "sliceable" in self.game.abilities.get(item, ()):
                offers[f"slice {names[item]} with {names[knife]}"] = ("slice", item, knife)
