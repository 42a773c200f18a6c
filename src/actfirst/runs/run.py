"""A run as whoever looks at it sees it: `open_run(path)` reads a run folder, also while the run is writing.

Everything is read when it is first asked for, and once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from actfirst.errors import CheckpointError, RunFolderError
from actfirst.reading import Unreadable, read_toml
from actfirst.runs.episodes import EpisodeLine, EvaluationEpisodeLine
from actfirst.runs.evaluations import Evaluation, StoredEvaluation
from actfirst.runs.lines import (
    KINDS,
    AlignmentCounts,
    BatchLine,
    EvaluationLine,
    Line,
    Summary,
    TrainerState,
    UpdateLine,
    parse_line,
)
from actfirst.runs.manifest import evaluated_model, is_complete, verify_model
from actfirst.runs.record import parse, read_object
from actfirst.runs.responses import TrainedResponseLine
from actfirst.runs.run_folder import (
    CHECKPOINTS,
    EPISODES,
    EVALUATED,
    METRICS,
    RESPONSES,
    SUMMARY,
    UTILISATION,
    read_lines,
    saved_config,
)
from actfirst.runs.utilisation import UtilisationLine, one_history

EVALUATIONS = "evaluations"
_STEP = re.compile(r"step-(\d+)")
_EVALUATION = re.compile(r"update-(\d+)\.json")


@dataclass(frozen=True, slots=True)
class StoredCheckpoint:
    """A complete checkpoint of a run, and after which update it was written."""

    update: int
    path: Path

    @property
    def model(self) -> Path:
        """A Hugging Face folder, compared with its manifest: CheckpointError names a file that is not as written."""
        return verify_model(evaluated_model(self.path))

    @property
    def training_seconds(self) -> float:
        path = self.path / "training" / "state.json"
        try:
            state = parse(read_object(path).get("trainer") or {}, TrainerState, str(path))
        except RunFolderError as error:
            raise CheckpointError(f"{path} does not say how long training had taken ({error})") from error
        return state.training_seconds


@dataclass(frozen=True)
class Run:
    """A run folder, read-only."""

    folder: Path

    @cached_property
    def config(self) -> dict[str, Any]:
        """The run's configuration as TOML tables: another version may have written it."""
        path = saved_config(self.folder)
        try:
            return read_toml(path)
        except Unreadable as error:
            raise RunFolderError(f"{path} cannot be read: {error}") from error

    @property
    def seed(self) -> int:
        try:
            return int(self.config["run"]["seed"])
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise RunFolderError(f"{saved_config(self.folder)} does not say run.seed: {error}") from error

    @cached_property
    def lines(self) -> tuple[Line, ...]:
        """The metrics in order. Lines of other kinds are passed over."""
        return tuple(
            parse_line(data, f"line {number} of {self.folder / METRICS}")
            for number, data in enumerate(read_lines(self.folder, METRICS), start=1)
            if data.get("type") in KINDS
        )

    @cached_property
    def batches(self) -> tuple[BatchLine, ...]:
        return tuple(line for line in self.lines if isinstance(line, BatchLine))

    @cached_property
    def updates(self) -> tuple[UpdateLine, ...]:
        return tuple(line for line in self.lines if isinstance(line, UpdateLine))

    @cached_property
    def evaluations(self) -> tuple[EvaluationLine, ...]:
        """Those that the run made itself, then those that were made of its checkpoints afterwards."""
        own = (line for line in self.lines if isinstance(line, EvaluationLine))
        return (*own, *self._later_evaluations())

    @cached_property
    def curve(self) -> tuple[EvaluationLine, ...]:
        """The student's evaluations in order of updates; of two at one update the later counts."""
        by_update = {line.update: line for line in self.evaluations if line.who == "student"}
        return tuple(by_update[update] for update in sorted(by_update))

    @property
    def final(self) -> Evaluation | None:
        """The student's last evaluation in detail, None where none was kept."""
        return self._end.result if self._end else None

    @property
    def final_success(self) -> float | None:
        return self._end.success_rate if self._end else None

    @property
    def _end(self) -> EvaluationLine | None:
        """The last point of the curve. That of a checkpoint on the way is not the end of a finished run."""
        last = self.curve[-1] if self.curve else None
        return None if last and self.finished and last.update < self.summary.updates else last

    @cached_property
    def alignment(self) -> AlignmentCounts:
        """Over all delivered rollout batches."""
        return AlignmentCounts.sum(line.alignment for line in self.batches)

    @property
    def covered(self) -> float | None:
        """Percent of the training tasks with a reference in the end, where rollouts are the references."""
        return self.batches[-1].covered if self.batches else None

    def episodes(self) -> Iterator[EpisodeLine]:
        """The rollouts, in the order in which batches were delivered. Read anew each time: there may be many."""
        for number, data in enumerate(self.raw_episodes(), start=1):
            yield parse(data, EpisodeLine, f"line {number} of {self.folder / EPISODES}")

    def raw_episodes(self) -> Iterator[dict[str, object]]:
        """The same as JSON objects, for who needs little of them."""
        return read_lines(self.folder, EPISODES)

    def responses(self) -> Iterator[TrainedResponseLine]:
        """The stored part of the trained responses, in order of updates. Read anew each time."""
        for number, data in enumerate(read_lines(self.folder, RESPONSES), start=1):
            yield parse(data, TrainedResponseLine, f"line {number} of {self.folder / RESPONSES}")

    def evaluation_episodes(self) -> Iterator[EvaluationEpisodeLine]:
        """The stored part of the episodes of evaluations, in the order of these. Read anew each time."""
        for number, data in enumerate(read_lines(self.folder, EVALUATED), start=1):
            yield parse(data, EvaluationEpisodeLine, f"line {number} of {self.folder / EVALUATED}")

    @cached_property
    def utilisation(self) -> tuple[UtilisationLine, ...]:
        """How busy the machine was, in order of training seconds; empty where an older version wrote the run."""
        where = str(self.folder / UTILISATION)
        return one_history(parse(data, UtilisationLine, where) for data in read_lines(self.folder, UTILISATION))

    @property
    def finished(self) -> bool:
        return (self.folder / SUMMARY).is_file()

    @cached_property
    def summary(self) -> Summary:
        """The result; raises RunFolderError while the run is not finished."""
        if not self.finished:
            raise RunFolderError(f"{self.folder} holds no finished run (no {SUMMARY}); finish it with --resume")
        path = self.folder / SUMMARY
        return parse(read_object(path), Summary, str(path))

    def checkpoints(self) -> list[StoredCheckpoint]:
        """The complete checkpoints, in order of updates."""
        found = [
            StoredCheckpoint(int(name[1]), path)
            for path in (self.folder / CHECKPOINTS).glob("step-*")
            if (name := _STEP.fullmatch(path.name)) and is_complete(path)
        ]
        return sorted(found, key=lambda one: one.update)

    def evaluation_file(self, update: int) -> Path:
        """Where an evaluation of a checkpoint that is made afterwards goes."""
        return self.folder / EVALUATIONS / f"update-{update:06d}.json"

    def _later_evaluations(self) -> Iterator[EvaluationLine]:
        for path in sorted((self.folder / EVALUATIONS).glob("update-*.json")):
            if _EVALUATION.fullmatch(path.name):
                found = parse(read_object(path), StoredEvaluation, str(path))
                seconds = found.training_seconds or 0.0
                line = EvaluationLine.of("student", found.update or 0, seconds, found.result)
                yield line.model_copy(update={"result": found.result})  # with the outcomes of all tasks


def open_run(path: Path | str) -> Run:
    """The run in a folder; raises RunFolderError if there is none."""
    folder = Path(path)
    saved_config(folder)
    return Run(folder)
