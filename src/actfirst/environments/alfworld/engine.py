"""The native ALFWorld engine: plays one game as alfworld 0.4.2 on TextWorld 1.7.0 plays it, in pure Python.

Same text, same admissible commands in the same order, same outcome; no planner and no grammar at run time.
The rules of the domain are the `_offer*` methods (when a command is possible) and the `_do_*` methods (what it
does).
"""

from __future__ import annotations

from collections.abc import Callable

from actfirst.environments.alfworld import wording
from actfirst.environments.alfworld.game import Game
from actfirst.environments.alfworld.goal import HeldInLight
from actfirst.environments.alfworld.problem import Fact
from actfirst.environments.alfworld.state import State

Command = tuple[Callable[[str, str], str], str, str]
"""What a command does: a method of the engine and its two arguments (empty where unused)."""


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
        act, first, second = found
        text = act(first, second)
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
        """Identifies the set of positive facts."""
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
        offers["look"] = (self._do_look, "", "")
        offers["inventory"] = (self._do_inventory, "", "")
        offers["help"] = (self._do_help, "", "")
        for place in self.game.receptacles_at.get(self.state.location, ()):
            self._offer_receptacle(offers, place)
        if held:
            # Upstream means to offer this for visible objects too; a misplaced comma in the domain forbids it.
            offers[f"examine {self.game.names[held]}"] = (self._do_examine_object, held, "")
            if held in self.game.knives:
                self._offer_slicing(offers, held)
        return offers

    def _travel_from(self, location: str) -> dict[str, Command]:
        """`go to` commands: not to what is at the same place, where going would change nothing."""
        known = self._travel.get(location)
        if known is None:
            known = {
                f"go to {self.game.names[place]}": (self._do_go, place, there)
                for place, there in self.game.location_of.items()
                if there != location
            }
            self._travel[location] = known
        return known

    def _offer_receptacle(self, offers: dict[str, Command], place: str) -> None:
        game, state = self.game, self.state
        name, visible = game.names[place], True
        offers[f"examine {name}"] = (self._do_examine_receptacle, place, "")
        if place in game.openable:
            visible = state.holds("opened", place)
            if visible:
                offers[f"close {name}"] = (self._do_close, place, "")
            else:
                offers[f"open {name}"] = (self._do_open, place, "")
        for item in state.contents(place):
            abilities = game.abilities.get(item, frozenset())
            if visible and not state.held and "pickupable" in abilities:
                offers[f"take {game.names[item]} from {name}"] = (self._do_take, item, place)
            if "toggleable" in abilities:
                offers[f"use {game.names[item]}"] = (self._do_use, item, "")
        if state.held:
            self._offer_held(offers, state.held, place, visible)

    def _offer_held(self, offers: dict[str, Command], item: str, place: str, visible: bool) -> None:
        game = self.game
        thing, name, kind = game.names[item], game.names[place], game.receptacle_type.get(place, "")
        abilities = game.abilities.get(item, frozenset())
        if visible and (kind, game.object_type.get(item, "")) in game.can_contain:
            offers[f"move {thing} to {name}"] = (self._do_move, item, place)
        if "cleanable" in abilities and kind in game.washers:
            offers[f"clean {thing} with {name}"] = (self._do_clean, item, place)
        if "heatable" in abilities and kind == "microwavetype":
            offers[f"heat {thing} with {name}"] = (self._do_heat, item, place)
        if "coolable" in abilities and kind == "fridgetype":
            offers[f"cool {thing} with {name}"] = (self._do_cool, item, place)

    def _offer_slicing(self, offers: dict[str, Command], knife: str) -> None:
        names = self.game.names
        for item in self.state.objects_here():
            if "sliceable" in self.game.abilities.get(item, ()):
                offers[f"slice {names[item]} with {names[knife]}"] = (self._do_slice, item, knife)

    # -- what it does

    def _do_go(self, place: str, location: str) -> str:
        self.state.go(location)
        return f"You arrive at {self.game.names[place]}. {wording.receptacle(self.game, self.state, place)}"

    def _do_open(self, place: str, _: str) -> str:
        self.state.add("opened", place)
        self.state.add("checked", place)
        return f"You open the {self.game.names[place]}. {wording.receptacle(self.game, self.state, place)}"

    def _do_close(self, place: str, _: str) -> str:
        self.state.remove("opened", place)
        return f"You close the {self.game.names[place]}."

    def _do_take(self, item: str, place: str) -> str:
        self.state.take(item, place)
        return f"You pick up the {self.game.names[item]} from the {self.game.names[place]}."

    def _do_move(self, item: str, place: str) -> str:
        self.state.put(item, place)
        return f"You move the {self.game.names[item]} to the {self.game.names[place]}."

    def _do_clean(self, item: str, place: str) -> str:
        self.state.add("isclean", item)
        return f"You clean the {self.game.names[item]} using the {self.game.names[place]}."

    def _do_heat(self, item: str, place: str) -> str:
        self.state.add("ishot", item)
        self.state.remove("iscool", item)
        return f"You heat the {self.game.names[item]} using the {self.game.names[place]}."

    def _do_cool(self, item: str, place: str) -> str:
        self.state.add("iscool", item)
        self.state.remove("ishot", item)
        return f"You cool the {self.game.names[item]} using the {self.game.names[place]}."

    def _do_use(self, item: str, _: str) -> str:
        # The grammar asks whether the lamp has ever been toggled, so it always says "on". TextWorld reports
        # both branches of the domain's conditional effect on `isOn`, the negative one last: it never holds.
        self.state.add("istoggled", item)
        return f"You turn on the {self.game.names[item]}."

    def _do_slice(self, item: str, knife: str) -> str:
        self.state.add("issliced", item)
        return f"You sliced the {self.game.names[item]} with the {self.game.names[knife]}."

    def _do_look(self, _: str, __: str) -> str:
        self.state.add("checked", self.state.location)
        return wording.look(self.game, self.state)

    def _do_inventory(self, _: str, __: str) -> str:
        self.state.add("checked", self.game.agent)
        return wording.inventory(self.game, self.state)

    def _do_help(self, _: str, __: str) -> str:
        self.state.add("checked", self.game.agent)
        return wording.HELP

    def _do_examine_receptacle(self, place: str, _: str) -> str:
        self.state.add("checked", place)
        return wording.receptacle(self.game, self.state, place)

    def _do_examine_object(self, item: str, _: str) -> str:
        self.state.add("checked", item)
        return wording.appearance(self.game, self.state, item)
