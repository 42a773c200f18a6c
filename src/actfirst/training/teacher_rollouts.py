"""Rollouts of a model as candidates for references: plain think-then-act, several per task, kept in a file.

Paper, appendix "Reference Trajectories": ten rollouts per training task. The file is one of demonstrations
(`references/build/demonstrations.py`): it can be imported into any store of the same world, and a killed collection
goes on where it stopped; rollouts whose environment failed are played again. Actions of a rollout that scored nothing
are not kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from actfirst.errors import EnvironmentFailure, ReferenceStoreError, WorkerLost
from actfirst.evaluate.protocol import evaluate
from actfirst.records import Episode, Task, Turn
from actfirst.rollout.play import Player
from actfirst.runs import files, preparation
from actfirst.runs.preparation import Preparation
from actfirst.seeds import derive_seed

_INFRASTRUCTURE = (EnvironmentFailure.__name__, WorkerLost.__name__)  # how errors of no task's own fault begin


@dataclass(frozen=True)
class TeacherRollouts:
    """Plays every task `count` times, `at_once` at a time, and appends each rollout to `path` when it ends."""

    player: Player
    model: str
    count: int
    seed: int
    path: Path
    at_once: int
    environment: str = ""

    async def collect(
        self, tasks: Sequence[Task], on_rollout: Callable[[int, int], None] = lambda done, of: None
    ) -> None:
        """Play what the file does not hold yet. What that cost is added up in a file beside it."""
        begun, collected = time.monotonic(), list[int]()  # the steps of each rollout
        played = self._played()
        total = self.count * len(tasks)
        done = sum((task.id, number) in played for task in tasks for number in range(self.count))
        try:
            for number in range(self.count):
                missing = [task for task in tasks if (task.id, number) not in played]
                seed = derive_seed(self.seed, "reference rollout", number)

                def keep(episode: Episode, _: int, number: int = number) -> None:
                    self._append(number, episode)
                    collected.append(len(episode.turns))
                    on_rollout(done + len(collected), total)

                if missing:
                    await evaluate(self.player, missing, [seed], self.at_once, keep)
        finally:  # also of a collection that is interrupted
            if collected:
                self._add_cost(time.monotonic() - begun, collected)

    def _add_cost(self, seconds: float, collected: Sequence[int]) -> None:
        cost = Preparation(
            environment=self.environment,
            stage="candidates",
            model=self.model,
            seconds=round(seconds, 2),
            environment_steps=sum(collected),
            candidates=len(collected),
        )
        preparation.add(self.path, cost)

    def _played(self) -> set[tuple[str, int]]:
        with files.writing(self.path):
            self.path.parent.mkdir(parents=True, exist_ok=True)
            whole = files.whole_size(self.path)
        if files.size(self.path) > whole:
            files.cut(self.path, whole)
        played: set[tuple[str, int]] = set()
        for line in files.read_json_lines(self.path):
            if line.get("model") != self.model:
                raise ReferenceStoreError(
                    f"{self.path} holds rollouts of {line.get('model')}, not of {self.model}; move it away"
                )
            if not str(line.get("error") or "").startswith(_INFRASTRUCTURE):
                played.add((str(line["task_id"]), int(str(line["rollout"]))))
        return played

    def _append(self, number: int, episode: Episode) -> None:
        score = episode.final.score if episode.final else 0.0
        record = {
            "task_id": episode.task.id,
            "rollout": number,
            "model": self.model,
            "score": score,
            "error": episode.error,
            "actions": [turn.action for turn in episode.turns] if score > 0 else [],
            "responses": [_own_words(turn) for turn in episode.turns] if score > 0 else [],
        }
        files.append_whole(self.path, files.json_line(record))


def _own_words(turn: Turn) -> str | None:
    """The response that chose the action; None where something was inserted into it, or its end was cut."""
    response = turn.response
    return None if response is None or response.requests > 1 or response.truncated else response.text
