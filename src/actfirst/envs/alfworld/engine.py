"""The native ALFWorld engine: plays one game as alfworld 0.4.2 on TextWorld 1.7.0 plays it, in pure Python.

Same text, same admissible commands in the same order, same outcome; no planner, no grammar at run time. The rules
of the domain are the `_do_*` methods (effects) and `_offers` (preconditions). The state is the set of positive
facts, with indexes for what rules and texts look up; its digest is kept up to date fact by fact.
"""

from __future__ import annotations

import hashlib
from bisect import insort
from collections.abc import Callable, Sequence
from functools import lru_cache

from actfirst.envs.alfworld.game import Game
from actfirst.envs.alfworld.goal import HeldInLight
from actfirst.envs.alfworld.problem import Fact

BANNER = "-= Welcome to TextWorld, ALFRED! =-"
NOTHING_HAPPENS = "Nothing happens."

Command = tuple[Callable[[str, str], str], str, str]
"""What a command does: a method of the engine and its two arguments (empty where unused)."""


@lru_cache(maxsize=1 << 16)
def _fact_code(fact: Fact) -> int:
    return int.from_bytes(hashlib.blake2b(" ".join(fact).encode(), digest_size=8).digest(), "big")


def _listing(items: Sequence[str]) -> str:
    if len(items) < 2:
        return items[0] if items else "nothing"
    return ", ".join(items[:-1]) + ", and " + items[-1]


class Engine:
    """One game in play. `facts`, `commands` and `won` describe the state after the last `step` or `reset`."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._travel: dict[str, dict[str, Command]] = {}
        self.reset()

    def reset(self) -> str:
        """Back to the initial state; returns the first text, which ends with the task sentence."""
        game = self.game
        self.facts: set[Fact] = set()
        self._code = 0
        self._contents: dict[str, list[str]] = {}
        self._inside: dict[str, list[str]] = {}
        self._objects_at: dict[str, list[str]] = {}
        self._removed: set[tuple[str, str]] = set()  # (object, receptacle) it was last taken out of
        self._held = ""
        self._location = ""
        for fact in game.facts:
            self._add(fact)
            if fact[0] == "inreceptacle":
                insort(self._contents.setdefault(fact[2], []), fact[1])
            elif fact[0] == "objectatlocation":
                insort(self._objects_at.setdefault(fact[2], []), fact[1])
            elif fact[0] == "inreceptacleobject":
                insort(self._inside.setdefault(fact[2], []), fact[1])
            elif fact[0] == "atlocation":
                self._location = fact[2]
        self._refresh()
        return f"{BANNER}\n\n{self._surroundings(everywhere=True)}\n\nYour task is to: {game.task}"

    def step(self, command: str) -> str:
        """Submit a command. One that is not admissible changes nothing."""
        found = self.commands.get(command.strip())
        if found is None:
            return NOTHING_HAPPENS
        act, first, second = found
        text = act(first, second)
        self._refresh()
        return text

    def admissible(self) -> list[str]:
        """All commands that do something now, in TextWorld's order; `help` is one of them."""
        return sorted(self.commands)

    @property
    def digest(self) -> str:
        """Identifies the set of positive facts."""
        return f"{self._code:016x}"

    # -- state -------------------------------------------------------------------------------------------------

    def _add(self, *facts: Fact) -> None:
        for fact in facts:
            if fact not in self.facts:
                self.facts.add(fact)
                self._code ^= _fact_code(fact)

    def _remove(self, *facts: Fact) -> None:
        for fact in facts:
            if fact in self.facts:
                self.facts.remove(fact)
                self._code ^= _fact_code(fact)

    def _is(self, predicate: str, name: str) -> bool:
        return (predicate, name) in self.facts

    def _refresh(self) -> None:
        self.commands = self._offers()
        self.won = self._check_goal()

    def _check_goal(self) -> bool:
        game, goal = self.game, self.game.goal
        if isinstance(goal, HeldInLight):
            here = game.receptacles_at.get(self._location, ())
            return self._held in game.goal_objects and any(
                self._is("istoggled", lamp) and any(lamp in self._contents.get(r, ()) for r in here)
                for lamp in game.lamps
            )
        for receptacle in game.goal_receptacles:
            good = 0
            for item in self._contents.get(receptacle, ()):
                if item in game.goal_objects and all(self._is(wanted, item) for wanted in goal.properties):
                    good += 1
            if good >= goal.count:
                return True
        return False

    # -- what can be done ----------------------------------------------------------------------------------------

    def _offers(self) -> dict[str, Command]:
        names = self.game.names
        offers = dict(self._travel_from(self._location))
        offers["look"] = (self._do_look, "", "")
        offers["inventory"] = (self._do_inventory, "", "")
        offers["help"] = (self._do_help, "", "")
        for receptacle in self.game.receptacles_at.get(self._location, ()):
            self._offer_receptacle(offers, receptacle)
        if self._held:
            offers[f"examine {names[self._held]}"] = (self._do_examine_object, self._held, "")
            self._offer_slicing(offers)
        return offers

    def _travel_from(self, location: str) -> dict[str, Command]:
        known = self._travel.get(location)
        if known is None:
            known = {
                f"go to {self.game.names[receptacle]}": (self._do_go, receptacle, there)
                for receptacle, there in self.game.location_of.items()
                if there != location
            }
            self._travel[location] = known
        return known

    def _offer_receptacle(self, offers: dict[str, Command], receptacle: str) -> None:
        game = self.game
        name = game.names[receptacle]
        offers[f"examine {name}"] = (self._do_examine_receptacle, receptacle, "")
        visible = True
        if receptacle in game.openable:
            visible = self._is("opened", receptacle)
            if visible:
                offers[f"close {name}"] = (self._do_close, receptacle, "")
            else:
                offers[f"open {name}"] = (self._do_open, receptacle, "")
        for item in self._contents.get(receptacle, ()):
            abilities = game.abilities.get(item, frozenset())
            if visible and not self._held and "pickupable" in abilities:
                offers[f"take {game.names[item]} from {name}"] = (self._do_take, item, receptacle)
            if "toggleable" in abilities:
                offers[f"use {game.names[item]}"] = (self._do_use, item, "")
        if self._held:
            self._offer_held(offers, receptacle, visible)

    def _offer_held(self, offers: dict[str, Command], receptacle: str, visible: bool) -> None:
        game, item = self.game, self._held
        thing, name, kind = game.names[item], game.names[receptacle], game.receptacle_type.get(receptacle, "")
        abilities = game.abilities.get(item, frozenset())
        if visible and (kind, game.object_type.get(item, "")) in game.can_contain:
            offers[f"move {thing} to {name}"] = (self._do_move, item, receptacle)
        if "cleanable" in abilities and kind in game.dialect.washers:
            offers[f"clean {thing} with {name}"] = (self._do_clean, item, receptacle)
        if "heatable" in abilities and kind == "microwavetype":
            offers[f"heat {thing} with {name}"] = (self._do_heat, item, receptacle)
        if "coolable" in abilities and kind == "fridgetype":
            offers[f"cool {thing} with {name}"] = (self._do_cool, item, receptacle)

    def _offer_slicing(self, offers: dict[str, Command]) -> None:
        if self._held not in self.game.knives:
            return
        names = self.game.names
        for item in self._objects_at.get(self._location, ()):
            if "sliceable" in self.game.abilities.get(item, ()):
                offers[f"slice {names[item]} with {names[self._held]}"] = (self._do_slice, item, self._held)

    # -- what it does --------------------------------------------------------------------------------------------

    def _do_go(self, receptacle: str, location: str) -> str:
        agent = self.game.agent
        self._remove(("atlocation", agent, self._location))
        self._add(("atlocation", agent, location))
        self._location = location
        return f"You arrive at {self.game.names[receptacle]}. {self._describe(receptacle)}"

    def _do_open(self, receptacle: str, _: str) -> str:
        self._add(("opened", receptacle), ("checked", receptacle))
        return f"You open the {self.game.names[receptacle]}. {self._describe(receptacle)}"

    def _do_close(self, receptacle: str, _: str) -> str:
        self._remove(("opened", receptacle))
        return f"You close the {self.game.names[receptacle]}."

    def _do_take(self, item: str, receptacle: str) -> str:
        agent = self.game.agent
        self._remove(("inreceptacle", item, receptacle), ("objectatlocation", item, self._location))
        self._add(("holds", agent, item), ("holdsany", agent))
        self._contents[receptacle].remove(item)
        if item in self._objects_at.get(self._location, ()):
            self._objects_at[self._location].remove(item)
        self._removed.add((item, receptacle))
        self._held = item
        return f"You pick up the {self.game.names[item]} from the {self.game.names[receptacle]}."

    def _do_move(self, item: str, receptacle: str) -> str:
        agent = self.game.agent
        self._add(("inreceptacle", item, receptacle), ("objectatlocation", item, self._location))
        self._remove(("holds", agent, item), ("holdsany", agent))
        for index in (self._contents.setdefault(receptacle, []), self._objects_at.setdefault(self._location, [])):
            if item not in index:
                insort(index, item)
        self._removed.discard((item, receptacle))
        self._held = ""
        return f"You move the {self.game.names[item]} to the {self.game.names[receptacle]}."

    def _do_clean(self, item: str, receptacle: str) -> str:
        self._add(("isclean", item))
        return f"You clean the {self.game.names[item]} using the {self.game.names[receptacle]}."

    def _do_heat(self, item: str, receptacle: str) -> str:
        self._add(("ishot", item))
        self._remove(("iscool", item))
        return f"You heat the {self.game.names[item]} using the {self.game.names[receptacle]}."

    def _do_cool(self, item: str, receptacle: str) -> str:
        self._add(("iscool", item))
        self._remove(("ishot", item))
        return f"You cool the {self.game.names[item]} using the {self.game.names[receptacle]}."

    def _do_use(self, item: str, _: str) -> str:
        if self._is("ison", item):
            self._remove(("ison", item))
        else:
            self._add(("ison", item))
        # The grammar asks whether the lamp has ever been toggled, so it always says "on".
        self._add(("istoggled", item))
        return f"You turn on the {self.game.names[item]}."

    def _do_slice(self, item: str, knife: str) -> str:
        self._add(("issliced", item))
        return f"You sliced the {self.game.names[item]} with the {self.game.names[knife]}."

    def _do_look(self, _: str, __: str) -> str:
        self._add(("checked", self._location))
        return self._surroundings(everywhere=False)

    def _do_inventory(self, _: str, __: str) -> str:
        self._add(("checked", self.game.agent))
        if not self._held:
            return "You are not carrying anything."
        return f"You are carrying: a {self.game.names[self._held]}."

    def _do_help(self, _: str, __: str) -> str:
        self._add(("checked", self.game.agent))
        return self.game.dialect.help_text

    def _do_examine_receptacle(self, receptacle: str, _: str) -> str:
        self._add(("checked", receptacle))
        return self._describe(receptacle)

    def _do_examine_object(self, item: str, _: str) -> str:
        self._add(("checked", item))
        return self._appearance(item)

    # -- what is said --------------------------------------------------------------------------------------------

    def _with_article(self, identifiers: Sequence[str]) -> str:
        return _listing([f"a {self.game.names[identifier]}" for identifier in identifiers])

    def _describe(self, receptacle: str) -> str:
        name = self.game.names[receptacle]
        things = self._with_article(self._contents.get(receptacle, ()))
        if receptacle not in self.game.openable:
            return f"On the {name}, you see {things}."
        if self._is("opened", receptacle):
            return f"The {name} is open. In it, you see {things}."
        return f"The {name} is closed."

    def _surroundings(self, everywhere: bool) -> str:
        """The text of `look`. Away from receptacles it lists all of them at the start, and nothing later on."""
        game = self.game
        here = game.receptacles_at.get(self._location, ())
        if here:
            facing = _listing([game.names[receptacle] for receptacle in here])
            floor = [
                item
                for item in self._objects_at.get(self._location, ())
                for receptacle in here
                if (item, receptacle) in self._removed
            ]
            return f"You are facing the {facing}. Next to it, you see {self._with_article(floor)}."
        things = self._with_article(list(game.location_of) if everywhere else [])
        return f"You are in the middle of a room. Looking quickly around you, you see {things}."

    def _appearance(self, item: str) -> str:
        name, abilities = self.game.names[item], self.game.abilities.get(item, frozenset())
        if "isreceptacleobject" in abilities:
            return f"This is a normal {name}. In it, you see {self._with_article(self._inside.get(item, ()))}."
        clean, hot, cool = self._is("isclean", item), self._is("ishot", item), self._is("iscool", item)
        sliced = "sliced " if self._is("issliced", item) else ""
        if clean and (hot or cool):
            return f"This is a {'hot' if hot else 'cool'} and clean {sliced}{name}."
        if sliced and clean:
            return f"This is a clean sliced {name}."
        if sliced and (hot or cool):
            return f"This is a {'hot' if hot else 'cool'} sliced {name}."
        if hot:
            return f"This is a hot {name}."
        if clean:
            return f"This is a clean {name}."
        if cool:
            return f"This is a cold {name}."
        if "toggleable" in abilities and self._is("istoggled", item):
            return f"This {name} is on."
        if sliced and "sliceable" in abilities:
            return f"This is a sliced {name}."
        return f"There's nothing special about {name}."
