"""What one process replays with: an environment of a world, its rules, and a rehearsal where the world has one."""

from __future__ import annotations

from actfirst.environments.rule_table import RULES, TransitionRules
from actfirst.environments.base import Environment, World
from actfirst.records import Reference, Task
from actfirst.references.build.candidates import Candidate
from actfirst.references.build.rehearsal import Rehearsal, open_rehearsal
from actfirst.references.build.replay import try_out
from actfirst.references.build.rewrite import REWRITES, nothing


class Workbench:
    """Opens things when they are first needed; after `close` it opens new ones."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.rules: TransitionRules = RULES[world.rules]
        self._rewrite = REWRITES.get(world.rules, nothing)
        self._environment: Environment | None = None
        self._rehearsal: Rehearsal | None = None

    @property
    def environment(self) -> Environment:
        if self._environment is None:
            self._environment = self.world.open()
        return self._environment

    @property
    def rehearsal(self) -> Rehearsal | None:
        if self._rehearsal is None:
            self._rehearsal = open_rehearsal(self.world)
        return self._rehearsal

    def try_out(self, task: Task, candidate: Candidate) -> Reference:
        """What a candidate comes to in the environment."""
        return try_out(self.environment, task, candidate, self.rules, self._rewrite)

    def close(self) -> None:
        for opened in (self._environment, self._rehearsal):
            if opened is not None:
                opened.close()
        self._environment = self._rehearsal = None
