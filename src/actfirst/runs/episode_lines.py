"""What the lines of episodes.jsonl mean to measurements. Only the fields that are read here are named."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from actfirst.errors import RunFolderError
from actfirst.lab.repetition import Step
from actfirst.records import ActionSource, Verdict
from actfirst.runs.run_folder import EPISODES, read_episodes


class _Record(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class RequestLine(_Record):
    """A fast action that was asked for."""

    tokens: int


class ResponseLine(_Record):
    """A full response that acted."""

    generated_tokens: int
    text: str


class TurnLine(_Record):
    """One executed turn."""

    number: int
    observation: str
    action: str
    valid: bool
    source: ActionSource
    verdict: Verdict
    state: str
    seconds: float
    requests: tuple[RequestLine, ...] = ()
    response: ResponseLine | None = None


class EpisodeLine(_Record):
    """One rollout. `ended` is 0 where nobody looked at a clock."""

    id: str
    batch: int
    success: bool
    guided: bool
    seconds: float
    ended: float = 0.0
    final_observation: str = ""
    turns: tuple[TurnLine, ...]

    def steps(self) -> tuple[str, list[Step]]:
        """The first observation, and the turns as the measurement of repetition sees them."""
        if not self.turns:
            return self.final_observation, []
        after = [*(turn.observation for turn in self.turns[1:]), self.final_observation]
        steps = [
            Step(turn.state, turn.action, turn.valid, text)
            for turn, text in zip(self.turns, after, strict=True)
        ]
        return self.turns[0].observation, steps

    def completions(self) -> list[float]:
        """When each transition was over, on the run's training clock: turns follow each other without a gap."""
        times, now = [], self.ended
        for turn in reversed(self.turns):
            times.append(now)
            now -= turn.seconds
        return times[::-1]


def read_episode_lines(folder: Path) -> Iterator[EpisodeLine]:
    """The episodes of a run, in the order in which batches were delivered."""
    for number, record in enumerate(read_episodes(folder), start=1):
        try:
            yield EpisodeLine.model_validate(record)
        except ValidationError as error:
            finding = error.errors(include_url=False)[0]
            place = ".".join(map(str, finding["loc"]))
            raise RunFolderError(
                f"line {number} of {folder / EPISODES} cannot be read: {place}: {finding['msg']}"
            ) from error
