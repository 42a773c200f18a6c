"""Errors, named after the boundary at which they happen.

Each message names the cause and the remedy. A failure inside one episode (EpisodeError) is recorded on that
episode and never cancels its siblings; every other error ends the command with one clear message.
"""

from __future__ import annotations

import re
from typing import Self

_PASSWORD = re.compile(r"(?<=://)[^/\s\"']*:[^/\s\"']*(?=@)")


def without_passwords(text: str) -> str:
    """A text in which the name and the password of every address (https://name:password@host) are hidden."""
    return _PASSWORD.sub("***", text) if "@" in text else text


class ActfirstError(Exception):
    """Base of every error that the program raises on purpose. A message shows no password of an address, and goes
    through the text gate: a library may have put anything into it."""

    def __str__(self) -> str:
        from actfirst.reading import clean  # late: `--help` loads no reader

        return clean(without_passwords(super().__str__()))


class ConfigError(ActfirstError):
    """A recipe or override that cannot be used; names the key and what would be right."""


class TaskError(ActfirstError):
    """A task or split that the environment does not have."""


class ReferenceStoreError(ActfirstError):
    """A reference store that is missing, corrupt or made for another configuration."""


class DataError(ActfirstError):
    """Demonstrations that cannot be read; names file, line and what is wrong."""


class CheckpointError(ActfirstError):
    """A checkpoint that is missing, incomplete or corrupt."""


class RunFolderError(ActfirstError):
    """A run folder that cannot be written or continued."""


class UpdateError(ActfirstError):
    """An update that was not made: the weights and the optimiser are as they were."""


class LearnerLost(ActfirstError):
    """A process of the learner that died; the run goes back to its last checkpoint."""


class EngineError(ActfirstError):
    """An inference engine that failed or was asked for something it cannot do."""

    def again(self) -> Self:
        """The same failure for one more caller: an exception that is raised twice collects both their traces."""
        return type(self)(*self.args)


class EngineDied(EngineError):
    """An engine that ended by a failure: another one may take its requests."""


class TeacherError(ActfirstError):
    """A teacher that does not fit the student or cannot score."""


class EnvironmentFailure(ActfirstError):
    """An environment that cannot be opened, or that died or hung."""


class WorkerLost(EnvironmentFailure):
    """An environment that went down with its worker process, and cannot have been the cause."""


class RolloutError(ActfirstError):
    """Rollouts that give nothing to train on."""


class LedgerError(ActfirstError):
    """A broken invariant of sample accounting. Always a bug, never an input error."""


class EpisodeError(ActfirstError):
    """Base of failures that belong to one episode."""


class PromptTooLong(EpisodeError):
    """A prompt that exceeds its budget even with no history."""


class RunStopped(ActfirstError):
    """A run that was asked to end before it was finished; it has stored what it learned. `code` is the exit code."""

    def __init__(self, reason: str, code: int) -> None:
        super().__init__(reason)
        self.code = code
