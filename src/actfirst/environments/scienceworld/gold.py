"""Gold paths of the simulator as candidates for references (paper, appendix "Reference Trajectories").

A gold path wins (that of one of the 2,294 training tasks does not), but it looks around, walks through every door and
measures all the time: many are longer than an episode, and many of their commands are not on the simulator's own list.
Here they are made, cut where it is known what is not needed, and worded as an environment admits them.
Shortening what is left, action by action, is the business of `actfirst.references`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Self

from actfirst.environments.scienceworld.commands import spellings
from actfirst.environments.scienceworld.environment import FULL_SCORE, Course
from actfirst.environments.scienceworld.simulator import FIRST_CHOICE, QUESTION, Simulator
from actfirst.environments.scienceworld.wording import equivalents
from actfirst.environments.scienceworld.world import ScienceworldWorld
from actfirst.records import Task

Commands = tuple[str, ...]

_LOOKING = ("look around", "look at ", "look in ", "inventory", "task", "read ")
_MEASURING = ("use thermometer ", "examine ", "activate stopwatch", "deactivate stopwatch")
_WALKING = ("go to ", "teleport to ")
_GLANCE = "look at agent"
"""Listed everywhere; takes one move, as most commands do, and changes nothing."""

_MOST_TRIES = 12


@dataclass(frozen=True, slots=True)
class Played:
    """What came of commands: the best score, and how many of them it took to reach it."""

    score: float
    used: int

    @property
    def won(self) -> bool:
        return self.score >= FULL_SCORE


class GoldPaths:
    """Makes gold paths and replays commands, listed or not, with the draws of chance that an environment would see.

    A question of the simulator is answered with its first choice, unless the next command is the number of a choice.
    No lists are asked for while replaying, so it takes a fraction of an environment's time.
    """

    def __init__(self, world: ScienceworldWorld) -> None:
        self._world = world
        self._simulator = Simulator()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.close()

    def close(self) -> None:
        self._simulator.close()

    def gold(self, task: Task) -> Commands:
        """The simulator's own solution as it stands, without answers to questions: `play` and `reword` give them.

        The simulator makes it up by playing, which takes up to some seconds.
        """
        assignment = self._world.assignment(task)
        self._simulator.load(assignment.kind, assignment.variation, assignment.naming_seed, gold=True)
        return tuple(command for command in self._simulator.gold() if not command.isdecimal())

    def play(self, task: Task, commands: Sequence[str]) -> Played:
        """Execute commands from the beginning, up to the end of the task."""
        course = self._begin(task)
        best = Played(0.0, 0)
        for number, command in enumerate(commands, start=1):
            _execute(course, command, commands[number:])
            score = self._simulator.score()
            best = max(best, Played(score, number), key=lambda played: played.score)
            if best.won or score < 0 or self._simulator.completed():
                break
        return best

    def score(self, task: Task, actions: Sequence[str]) -> float:
        return self.play(task, actions).score

    def cut(self, task: Task, commands: Commands) -> Commands:
        """Commands that win, without what is known not to be needed; as they are if they do not win."""
        answers = by_teleport(answers_only(commands))
        if (played := self.play(task, answers)).won:
            return answers[: played.used]
        if not (played := self.play(task, commands)).won:
            return commands
        commands = commands[: played.used]
        for cut in CUTS:
            shorter = cut(commands)
            if len(shorter) < len(commands) and (played := self.play(task, shorter)).won:
                commands = shorter[: played.used]
        return commands

    def reword(self, task: Task, commands: Sequence[str]) -> Commands:
        """The same commands as the simulator lists them, so that an environment admits them; those that are not
        listed under any name are left out.

        What is left out took time. If the rest does not win without it, a glance takes as long in its place.
        """
        found, won = self._reword(task, commands, ())
        if won or _count_asked(found) == _count_asked(commands):
            return found
        slower, wins = self._reword(task, commands, (_GLANCE,))
        return slower if wins else found

    def _reword(self, task: Task, commands: Sequence[str], instead: Sequence[str]) -> tuple[Commands, bool]:
        """The listed commands, and whether they win. `instead` is executed where a command is not listed.

        Where several listed commands could be meant, the one that has the same effect is.
        """
        course, best = self._begin(task), 0.0
        naming_seed = self._world.assignment(task).naming_seed
        found: list[str] = []
        for number, command in enumerate(commands, start=1):
            choices = self._choices(naming_seed, command)
            if len(choices) > 1:
                choices = self._same_effect(task, found, command, choices)
                course, _ = self._replay(task, found)
            for choice in choices or instead:
                executed, _ = _execute(course, choice, commands[number:])
                found += executed
            best = max(best, self._simulator.score())
            if self._simulator.completed():
                break
        return tuple(found), best >= FULL_SCORE

    def _begin(self, task: Task) -> Course:
        return Course(self._simulator, self._world.assignment(task), self._world.gate)

    def _replay(self, task: Task, commands: Sequence[str]) -> tuple[Course, str]:
        """Execute commands from the beginning; returns the last answer, too."""
        course, answer = self._begin(task), ""
        for number, command in enumerate(commands, start=1):
            _, answer = _execute(course, command, commands[number:])
        return course, answer

    def _choices(self, naming_seed: int, command: str) -> list[str]:
        listed = self._simulator.listed_commands(naming_seed)
        shown = self._simulator.shown_objects(naming_seed)
        admitted = spellings(listed, self._simulator.templates(), shown)
        if command in admitted:
            return [admitted[command]]
        names = self._simulator.names()
        known = {
            number: (*names.get(number, ()), *shown.get(number, "").splitlines()) for number in {*names, *shown}
        }
        return [entry.text for entry in equivalents(command, listed, known)]

    def _same_effect(
        self, task: Task, before: Sequence[str], command: str, choices: Sequence[str]
    ) -> list[str]:
        """The first choice that is answered and scored as the command is; else the first that is scored so."""
        wanted = self._effect(task, (*before, command))
        scored: list[str] = []
        for choice in choices[:_MOST_TRIES]:
            answer, score = self._effect(task, (*before, choice))
            if (answer, score) == wanted:
                return [choice]
            if score == wanted[1]:
                scored.append(choice)
        return scored[:1]

    def _effect(self, task: Task, commands: Sequence[str]) -> tuple[str, float]:
        """The last answer, whatever its numbers, and the score."""
        _, answer = self._replay(task, commands)
        return "".join(mark for mark in answer if not mark.isdecimal()), self._simulator.score()


def _execute(course: Course, command: str, following: Sequence[str]) -> tuple[Commands, str]:
    """Submit a command, and answers to questions that the following commands do not answer. Returns what was submitted
    and what the simulator said last."""
    executed, text = [command], course.submit(command)
    while text.startswith(QUESTION) and not "".join(following[:1]).isdecimal():
        executed.append(FIRST_CHOICE)
        text = course.submit(FIRST_CHOICE)
    return tuple(executed), text


def _count_asked(commands: Sequence[str]) -> int:
    """How many commands there are beside answers to questions."""
    return sum(not command.isdecimal() for command in commands)


def answers_only(commands: Commands) -> Commands:
    """Only the ways and what is focused on: enough where an experiment merely tells the right answer."""
    return tuple(command for command in commands if command.startswith(("focus on ", *_WALKING)))


def without_looking(commands: Commands) -> Commands:
    return tuple(command for command in commands if not command.startswith(_LOOKING))


def without_doors(commands: Commands) -> Commands:
    """Doors are open in the `easy` preset."""
    return tuple(c for c in commands if not (c.startswith("open ") and "door" in c))


def by_teleport(commands: Commands) -> Commands:
    """One step to the end of every walk; needs doors and looks to be gone."""
    found: list[str] = []
    for walking, group in groupby(commands, lambda command: command.startswith(_WALKING)):
        steps = list(group)
        found += [f"teleport to {steps[-1].partition(' to ')[2]}"] if walking else steps
    return tuple(found)


def without_measuring(commands: Commands) -> Commands:
    return tuple(command for command in commands if not command.startswith(_MEASURING))


def long_waits(commands: Commands) -> Commands:
    """Waiting and measuring take time in which something boils or grows: the same time in few long waits."""
    found: list[str] = []
    for passing, group in groupby(commands, lambda command: command.startswith(("wait1", *_MEASURING))):
        steps = list(group)
        found += _waits(steps) if passing and len(steps) > 1 else steps
    return tuple(found)


def _waits(steps: Sequence[str]) -> list[str]:
    """As many of `wait` (11 moves: ten and its own) as the steps take moves (`wait1` takes two), rounded up."""
    moves = sum(2 if step == "wait1" else 1 for step in steps)
    return ["wait"] * -(-moves // 11)


def _walks(commands: Commands) -> Commands:
    return by_teleport(without_doors(without_looking(commands)))


CUTS: tuple[Callable[[Commands], Commands], ...] = (
    long_waits,
    _walks,
    without_looking,
    without_doors,
    by_teleport,
    without_measuring,
    long_waits,
)
"""Tried in this order where the answers alone do not win; each is kept if the rest still wins."""
