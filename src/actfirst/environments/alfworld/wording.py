"""What ALFWorld says: descriptions of receptacles, objects and surroundings, word for word.

The order of the cases and a few odd results ("a cold mug" but "a cool and clean mug", a list of nothing after
`look` in the middle of a room) are ALFWorld's own; the texts are the interface that agents are trained on.
"""

from __future__ import annotations

from collections.abc import Sequence

from actfirst.environments.alfworld.game import Game
from actfirst.environments.alfworld.state import State

BANNER = "-= Welcome to TextWorld, ALFRED! =-"
NOTHING_HAPPENS = "Nothing happens."
HELP = """Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  move (object) to (receptacle):  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""


def opening(game: Game, state: State) -> str:
    return f"{BANNER}\n\n{_surroundings(game, state, list(game.location_of))}\n\nYour task is to: {game.task}"


def look(game: Game, state: State) -> str:
    # The grammar binds the location before it lists the receptacles, so away from all of them there are none.
    return _surroundings(game, state, [])


def inventory(game: Game, state: State) -> str:
    return f"You are carrying: a {game.names[state.held]}." if state.held else "You are not carrying anything."


def receptacle(game: Game, state: State, place: str) -> str:
    """What is on or in a receptacle, or that it is closed."""
    name = game.names[place]
    if place not in game.openable:
        return f"On the {name}, you see {_things(game, state.contents(place))}."
    if state.holds("opened", place):
        return f"The {name} is open. In it, you see {_things(game, state.contents(place))}."
    return f"The {name} is closed."


def appearance(game: Game, state: State, item: str) -> str:
    name, abilities = game.names[item], game.abilities.get(item, frozenset())
    if "isreceptacleobject" in abilities:
        return f"This is a normal {name}. In it, you see {_things(game, state.inside(item))}."
    clean, sliced = state.holds("isclean", item), state.holds("issliced", item)
    hot, cool = state.holds("ishot", item), state.holds("iscool", item)
    warmth = "hot" if hot else "cool" if cool else ""
    described = f"sliced {name}" if sliced else name
    if warmth and clean:
        return f"This is a {warmth} and clean {described}."
    if sliced and (clean or warmth):
        return f"This is a {'clean' if clean else warmth} {described}."
    if hot or clean or cool:
        return f"This is a {'hot' if hot else 'clean' if clean else 'cold'} {name}."
    if "toggleable" in abilities and state.holds("istoggled", item):
        return f"This {name} is on."
    if "sliceable" in abilities and sliced:
        return f"This is a {described}."
    return f"There's nothing special about {name}."


def _surroundings(game: Game, state: State, receptacles: Sequence[str]) -> str:
    here = game.receptacles_at.get(state.location, ())
    if not here:
        things = _things(game, receptacles)
        return f"You are in the middle of a room. Looking quickly around you, you see {things}."
    facing = _listing([game.names[place] for place in here])
    beside = [item for item in state.objects_here() for place in here if state.was_taken_from(item, place)]
    return f"You are facing the {facing}. Next to it, you see {_things(game, beside)}."


def _things(game: Game, identifiers: Sequence[str]) -> str:
    return _listing([f"a {game.names[identifier]}" for identifier in identifiers])


def _listing(items: Sequence[str]) -> str:
    if len(items) < 2:
        return items[0] if items else "nothing"
    return ", ".join(items[:-1]) + ", and " + items[-1]
