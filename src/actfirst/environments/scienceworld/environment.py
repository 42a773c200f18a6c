"""An environment that plays ScienceWorld tasks (paper, appendices "Benchmarks" and "Transition Consistency Checks").

Whatever the agent says is submitted, and the simulator decides what it does: it understands much that it does not list.
The admissible list is for the validation of guided proposals. It is asked for once per executed command: every turn of
a rollout is validated against it, so asking later would save nothing. By far the most expensive call, it is left out
after an action that was not understood, and at the end of an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from actfirst.environments.scienceworld.commands import meant, spellings
from actfirst.environments.scienceworld.simulator import UNKNOWN, Simulator, Template
from actfirst.environments.scienceworld.tasks import Gate
from actfirst.errors import EnvironmentFailure
from actfirst.records import Observation, Task
from actfirst.seeds import derive_seed

FIRST_LOOK = "look around"
FULL_SCORE = 99.999
"""Success requires this score (paper, "Evaluation Metrics")."""


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a task means to the simulator. `seed` decides what it leaves to chance."""

    kind: str
    variation: int
    seed: int

    def step_seed(self, number: int) -> int:
        """The seed of the command executed after `number` others."""
        return derive_seed(self.seed, self.kind, self.variation, number)

    @property
    def naming_seed(self) -> int:
        """One seed for all lists of a task: what is named so now is named so later."""
        return derive_seed(self.seed, self.kind, self.variation, "names")


class Course:
    """A task from its beginning: commands in their order, each with its own draws of chance.

    A command that is not understood changes nothing, chance included. Behind the gate, where every command is a listed
    one, each counts, and questions are answered with their first choice.
    """

    def __init__(self, simulator: Simulator, assignment: Assignment, gate: Gate) -> None:
        self._simulator = simulator
        self._assignment = assignment
        self._gated = gate != "none"
        self._executed = 0
        # `load` begins the task; the wrapper's `reset` would load it a second time.
        simulator.load(assignment.kind, assignment.variation, assignment.naming_seed)
        self.first = self.submit(FIRST_LOOK)

    def submit(self, command: str) -> str:
        text = self._simulator.step(command, self._assignment.step_seed(self._executed), self._gated)
        if self._gated or text != UNKNOWN:
            self._executed += 1
        return text


class ScienceworldPlayer:
    """Plays the assignment that `find` returns for a task.

    An action that the simulator does not understand costs a turn and changes nothing. A question ("Ambiguous request")
    is shown, and the next action answers it by number; the admissible list then holds the numbers. Behind the gate,
    an action that is not admissible is not submitted, the listed command is submitted for each of its spellings, and
    the first choice answers every question.
    `score` is the best score so far, clipped to [0, 100]; an episode ends when the simulator says so, when the score
    turns negative (a wrong final answer), or with full score. The simulator cannot name its state, so `state` is empty.
    """

    def __init__(self, find: Callable[[Task], Assignment], gate: Gate = "none") -> None:
        self._find = find
        self._gate: Gate = gate
        self._simulator: Simulator | None = Simulator()
        self._seen: Observation | None = None
        self._course: Course | None = None
        self._naming_seed = 0
        self._templates: tuple[Template, ...] = ()
        self._spellings: dict[str, str] = {}

    def reset(self, task: Task) -> tuple[str, Observation]:
        assignment, self._course, self._seen = self._find(task), None, None
        simulator = self._playing()
        self._naming_seed = assignment.naming_seed
        course = Course(simulator, assignment, self._gate)
        self._templates = simulator.templates()
        self._course, self._seen = course, self._observe(simulator, course.first, best=0.0)
        return simulator.description(), self._seen

    def step(self, action: str) -> Observation:
        simulator, course, seen = self._playing(), self._course, self._seen
        if course is None or seen is None:
            raise EnvironmentFailure("step was called before reset, or after a reset that failed")
        command = action if self._gate == "none" else meant(action, self._spellings)
        if seen.done or command is None:
            return replace(seen, text=UNKNOWN)
        text = course.submit(command)
        if self._gate == "none" and text == UNKNOWN:
            return replace(seen, text=UNKNOWN)
        self._seen = self._observe(simulator, text, seen.score)
        return self._seen

    def close(self) -> None:
        if self._simulator is not None:
            self._simulator.close()
        self._simulator = self._course = self._seen = None

    def _playing(self) -> Simulator:
        if self._simulator is None:
            raise EnvironmentFailure("this environment was closed; open another one")
        return self._simulator

    def _observe(self, simulator: Simulator, text: str, best: float) -> Observation:
        score = simulator.score()
        best = min(100.0, max(best, score))
        success = best >= FULL_SCORE
        done = success or score < 0 or simulator.completed()
        shown = simulator.shown_objects(self._naming_seed)
        listed = () if done else simulator.listed_commands(self._naming_seed)
        self._spellings = spellings(listed, self._templates, shown)
        return Observation(
            text=text,
            admissible=tuple(self._spellings),
            templates=tuple(template.text for template in self._templates),
            objects=tuple(sorted(set(shown.values()))),
            done=done,
            success=success,
            score=best,
        )
