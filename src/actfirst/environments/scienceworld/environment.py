"""An environment that plays ScienceWorld tasks (paper, appendices "Benchmarks" and "Transition Consistency Checks").

The admissible list is asked for once per executed command, by far the most expensive call: every turn of a rollout is
validated against it, so asking later would save nothing. It is not asked for after an action that was not executed, nor
at the end of an episode.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from actfirst.environments.scienceworld.commands import meant, spellings
from actfirst.environments.scienceworld.simulator import UNKNOWN, Simulator, Template
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
        """The seed of the command executed after `number` others; refused actions do not count."""
        return derive_seed(self.seed, self.kind, self.variation, number)

    @property
    def naming_seed(self) -> int:
        """One seed for all lists of a task: what is named so now is named so later."""
        return derive_seed(self.seed, self.kind, self.variation, "names")


class ScienceworldPlayer:
    """Plays the assignment that `find` returns for a task.

    An action that is not admissible is not executed: the simulator's own refusal is shown, and a turn is used up.
    `score` is the best score so far, clipped to [0, 100]; an episode ends when the simulator says so, when the score
    turns negative (a wrong final answer), or with full score. The simulator cannot name its state, so `state` is empty.
    """

    def __init__(self, find: Callable[[Task], Assignment]) -> None:
        self._find = find
        self._simulator: Simulator | None = Simulator()
        self._seen: Observation | None = None
        self._assignment = Assignment("", 0, 0)
        self._templates: tuple[Template, ...] = ()
        self._spellings: dict[str, str] = {}
        self._executed = 0

    def reset(self, task: Task) -> tuple[str, Observation]:
        self._assignment, self._seen, self._executed = self._find(task), None, 0
        simulator = self._playing()
        # `load` begins the task; the wrapper's `reset` would load it a second time.
        simulator.load(self._assignment.kind, self._assignment.variation, self._assignment.naming_seed)
        self._templates = simulator.templates()
        self._seen = self._execute(simulator, FIRST_LOOK, best=0.0)
        return simulator.description(), self._seen

    def step(self, action: str) -> Observation:
        simulator, seen = self._playing(), self._seen
        if seen is None:
            raise EnvironmentFailure("step was called before reset, or after a reset that failed")
        command = meant(action, self._spellings)
        if command is None:
            return replace(seen, text=UNKNOWN)
        self._seen = self._execute(simulator, command, seen.score)
        return self._seen

    def close(self) -> None:
        if self._simulator is not None:
            self._simulator.close()
        self._simulator = self._seen = None

    def _playing(self) -> Simulator:
        if self._simulator is None:
            raise EnvironmentFailure("this environment was closed; open another one")
        return self._simulator

    def _execute(self, simulator: Simulator, command: str, best: float) -> Observation:
        text = simulator.step(command, self._assignment.step_seed(self._executed))
        self._executed += 1
        score = simulator.score()
        best = min(100.0, max(best, score))
        success = best >= FULL_SCORE
        done = success or score < 0 or simulator.completed()
        naming = self._assignment.naming_seed
        shown = simulator.shown_objects(naming)
        self._spellings = {} if done else spellings(simulator.listed_commands(naming), self._templates, shown)
        return Observation(
            text=text,
            admissible=tuple(self._spellings),
            templates=tuple(template.text for template in self._templates),
            objects=tuple(sorted(set(shown.values()))),
            done=done,
            success=success,
            score=best,
        )
