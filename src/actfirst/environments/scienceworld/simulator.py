"""One game of the simulator, as typed calls. It knows nothing of turns, splits or what is admissible.

Calls that may draw chance take a seed; the same seeds give the same game.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from operator import attrgetter

from actfirst.environments.scienceworld import java
from actfirst.reading import parse_json

PRESET = "easy"
UNKNOWN = "No known action matches that input."
"""What the simulator says to a command that it cannot parse."""

QUESTION = "Ambiguous request"
"""How the simulator asks which of several things is meant. The next command has to be the number of a choice."""

FIRST_CHOICE = "0"
_MOST_QUESTIONS = 4


@dataclass(frozen=True, slots=True)
class Template:
    """A form of command, `OBJ` standing for an object. Two forms may share a number."""

    number: int
    text: str


@dataclass(frozen=True, slots=True)
class ListedCommand:
    """A command of the simulator's list of valid ones: its template, and its objects by id."""

    text: str
    template: int
    objects: tuple[int, ...]


class Simulator:
    """Plays one task at a time. Holds a share of this process's Java process until it is closed."""

    def __init__(self) -> None:
        self._java = java.acquire()
        self._release = weakref.finalize(self, java.release, self._java)
        try:
            self._game = self._java.new_game()
        except BaseException:
            self._release()
            raise

    def close(self) -> None:
        self._release()

    def load(self, kind: str, variation: int, seed: int, gold: bool = False) -> None:
        """Begin a task. A gold path is made on request: that takes up to seconds."""
        with self._java.seeded(f"loading {kind} {variation}", seed):
            self._game.load(kind, variation, PRESET, gold)

    def step(self, command: str, seed: int, answering: bool = False) -> str:
        """Submit a command, and return what the simulator says. `answering` takes the first choice of a question."""
        with self._java.seeded(f"the command {command!r}", seed):
            text = str(self._game.step(command))
            for _ in range(_MOST_QUESTIONS if answering else 0):
                if not text.startswith(QUESTION):
                    break
                text = str(self._game.step(FIRST_CHOICE))
            return text

    def score(self) -> float:
        """The score now, in [-100, 100], rounded as the published wrapper rounds it."""
        with self._java.calling("reading the score"):
            return float(round(100 * self._game.getScore()))

    def completed(self) -> bool:
        with self._java.calling("reading the end of the task"):
            return bool(self._game.getCompleted())

    def description(self) -> str:
        with self._java.calling("reading the task"):
            return str(self._game.getTaskDescription())

    def gold(self) -> tuple[str, ...]:
        """The gold path, if `load` was asked for one."""
        with self._java.calling("reading the gold path"):
            return tuple(str(command) for command in self._game.getGoldActionSequence())

    def templates(self) -> tuple[Template, ...]:
        with self._java.calling("listing the templates"):
            found = parse_json(self._game.getPossibleActionsWithIDs())
        return tuple(
            sorted((Template(t["template_id"], t["action_example"]) for t in found), key=attrgetter("text"))
        )

    def shown_objects(self, seed: int) -> dict[int, str]:
        """The objects in sight, each with a name that no other object in sight has."""
        with self._java.seeded("listing the objects", seed):
            found = parse_json(self._game.getPossibleObjectReferentLUTJSON())
        return {int(number): name for number, name in found.items()}

    def listed_commands(self, seed: int) -> tuple[ListedCommand, ...]:
        """The simulator's list of valid commands. Where objects look alike, chance decides how one is named."""
        with self._java.seeded("listing the valid commands", seed):
            found = parse_json(self._game.getValidActionObjectCombinationsJSON())["validActions"]
        listed = (ListedCommand(c["action"], c["template_id"], tuple(c["obj_ids"])) for c in found)
        return tuple(sorted(listed, key=attrgetter("text")))

    def names(self) -> dict[int, tuple[str, ...]]:
        """Every name that an object answers to, for all objects that the agent could ever refer to here."""
        with self._java.calling("listing the names"):
            found = parse_json(self._game.getAllObjectIdsTypesReferentsLUTJSON())
        return {int(number): tuple(entry["referents"]) for number, entry in found.items()}
