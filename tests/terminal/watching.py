"""What tests of watchers share: engines that report what a test says, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from actfirst.evaluate.results import Outcome, summarise
from actfirst.records import ActionSource, EngineStats, Episode, FastAction, Mode, Task, Turn, Verdict
from actfirst.runs.lines import BatchLine, EvaluationLine, Summary, UpdateLine, Who
from tests.support.run_folders import ALIGNMENT, batch, summary, update

IDLE = EngineStats(0, 0, 0, 0, 0, 0, 0.0, 0, 0)


@dataclass
class Engines:
    """An `EngineView`."""

    of_student: EngineStats = IDLE
    of_teacher: EngineStats = IDLE
    held: int = 0
    to_evaluate: int = 0

    def student(self) -> EngineStats:
        return self.of_student

    def teacher(self) -> EngineStats:
        return self.of_teacher

    def buffered(self) -> int:
        return self.held

    def episodes_left(self) -> int:
        return self.to_evaluate

    def generate(self, tokens: int) -> None:
        self.of_student = replace(self.of_student, generated_tokens=self.of_student.generated_tokens + tokens)


@dataclass
class Clock:
    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def evaluated(success: int, who: Who = "student", update: int = 0) -> EvaluationLine:
    """100 tasks, `success` of them solved."""
    outcomes = [
        Outcome(f"t{place}", "seen", "kind", 42, place < success, 100.0 * (place < success), 5)
        for place in range(100)
    ]
    return EvaluationLine.of(who, update, 0.0, summarise(outcomes, 3.0))


def episode(fast_tokens: tuple[int, ...]) -> Episode:
    """One turn per number, acted with that many tokens."""
    turns = tuple(
        Turn(
            number=number,
            observation="",
            action="look",
            source=ActionSource.NEXT_ACTION,
            valid=True,
            verdict=Verdict.UNCHECKED,
            requests=(FastAction(Mode.NEXT_ACTION, 50, tokens, "", "look", 0),),
            response=None,
            state="",
            seconds=0.1,
        )
        for number, tokens in enumerate(fast_tokens, start=1)
    )
    return Episode("e", Task("t", "train", "k"), 0, turns, None, False, 0, 1.0)


def batch_line(index: int, *, succeeded: int = 1, alignment: Mapping[str, int] = ALIGNMENT) -> BatchLine:
    return BatchLine.model_validate(batch(index, succeeded=succeeded, alignment=alignment))


def update_line(number: int, seconds: float, reverse_kl: float | None = 0.5) -> UpdateLine:
    return UpdateLine.model_validate(update(number, seconds, reverse_kl))


def summary_of(seconds: float, *, before: float | None = 10.0, after: float | None = 60.0) -> Summary:
    return Summary.model_validate(summary(seconds, before=before, after=after))
