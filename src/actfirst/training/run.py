"""A training run's parts and bookkeeping: what the loop calls, and nothing about where the parts live.

Runtimes (local, Ray) build the parts; the loop drives them. Files are written here: every delivered batch, update
and evaluation becomes a line of the run folder before the loop goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Protocol

from actfirst.config.config import Config
from actfirst.engines.base import Engine
from actfirst.errors import RolloutError
from actfirst.evaluate.protocol import evaluate
from actfirst.methods.table import method_of
from actfirst.records import EngineStats, Episode, Task, TurnSample, UpdateStats
from actfirst.rollout.buffer import SampleBuffer
from actfirst.rollout.collect import RolloutBatch
from actfirst.rollout.play import Player
from actfirst.rollout.stream import RolloutStream
from actfirst.runs.episodes import EpisodeLine
from actfirst.runs.lines import (
    EVALUATION,
    AlignmentCounts,
    BatchLine,
    EvaluationLine,
    EvaluationPoint,
    SuccessRates,
    Summary,
    TrainerState,
    UpdateLine,
    Who,
)
from actfirst.runs.run_folder import RunFolder
from actfirst.runs.sinks import Sink
from actfirst.training.arrival import Arrival
from actfirst.training.clock import StageClock
from actfirst.training.playing import in_play
from actfirst.training.utilisation import Utilisation
from actfirst.training.watch import Watcher

if TYPE_CHECKING:
    import torch

    from actfirst.learning.checkpoint import Checkpoint

_BARREN_BATCHES = 3


class TrainingLearner(Protocol):
    """The learner as the loop sees it, wherever it runs."""

    @property
    def version(self) -> int: ...

    async def open(self, checkpoint: Checkpoint | None) -> None:
        """Continue from a checkpoint, if there is one."""
        ...

    async def update(self, samples: Sequence[TurnSample]) -> UpdateStats: ...

    async def measure(self, samples: Sequence[TurnSample]) -> float:
        """The mean negative log-prob of samples of `learning.sft`; nothing is changed."""
        ...

    def weights(self) -> Mapping[str, torch.Tensor]: ...

    async def save(
        self, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], keep: int, also: Set[int]
    ) -> None:
        """Write a checkpoint; of the older ones the newest `keep` stay, and those of the updates in `also`."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Evaluations:
    """Who is evaluated, on what."""

    tasks: Sequence[Task]
    student: Player
    teacher: Player


@dataclass
class Training:
    """One run under way. Also the `EngineView` of whoever watches it."""

    config: Config
    title: str
    folder: RunFolder
    learner: TrainingLearner
    engine: Engine
    teacher_engine: Engine
    buffer: SampleBuffer
    rollouts: RolloutStream
    evaluations: Evaluations
    clock: StageClock
    watcher: Watcher
    sinks: Sequence[Sink]
    prove: Callable[[], Awaitable[None]]
    utilisation: Utilisation
    arrival: Arrival
    history: list[EvaluationPoint] = field(default_factory=list)
    barren: int = 0

    @property
    def updates(self) -> int:
        return self.config.run.updates

    @property
    def batch_size(self) -> int:
        return self.config.learner.batch_size

    def student(self) -> EngineStats:
        return self.engine.stats()

    def teacher(self) -> EngineStats:
        return self.teacher_engine.stats()

    def buffered(self) -> int:
        return len(self.buffer)

    async def begin(self) -> None:
        """Prove that the parts fit together, then measure where the student (and the teacher) stands."""
        self.watcher.started(self.title, self.updates, self.learner.version, self)
        self.utilisation.start()
        with self.clock.stage("start-up"):
            await self.prove()
        settings = self.config.evaluation
        if settings.teacher and not self._evaluated("teacher"):
            await self._evaluate("teacher", self.evaluations.teacher)
        if settings.at_start and not self._evaluated("student"):
            await self._evaluate("student", self.evaluations.student)

    def receive(self, batch: RolloutBatch) -> None:
        """Take a completed rollout batch into the buffer and the run folder."""
        self.buffer.add(batch.samples, batch.discarded, batch.stats.full_tokens)
        line = BatchLine(
            batch=batch.index,
            version=self.learner.version,
            training_seconds=self.clock.training,
            episodes=len(batch.episodes),
            succeeded=sum(bool(e.final and e.final.success) for e in batch.episodes),
            failed=sum(e.error is not None for e in batch.episodes),
            retried=sum(e.attempts - 1 for e in batch.episodes),
            depth=batch.depth,
            alignment=AlignmentCounts.of(batch.episodes),
            **asdict(batch.stats),
            student_engine=self.student(),
            teacher_engine=self.teacher(),
        )
        self.folder.append_episodes(map(EpisodeLine.of, batch.episodes))
        self.folder.append_metrics(line)
        self.watcher.batch(line)
        self.barren = 0 if batch.samples else self.barren + 1
        if self.barren == _BARREN_BATCHES:
            raise RolloutError(_why_barren(batch))

    def record(self, samples: Sequence[TurnSample], stats: UpdateStats) -> None:
        """Write down an update; the ledger must balance at every one."""
        self.buffer.ledger.check(len(self.buffer))
        version = self.learner.version
        self.arrival.check_samples(samples, stats, version - 1)
        lags = [version - 1 - sample.version for sample in samples]
        figures = method_of(self.config.rollout.method, self.config.methods).objective.figures(samples)
        if self.arrival.gap is not None:
            figures["weights_gap"] = self.arrival.gap  # of the sync before
        line = UpdateLine(
            update=version,
            training_seconds=self.clock.training,
            stages=self.clock.seconds,
            mean_lag=sum(lags) / len(lags),
            max_lag=max(lags),
            ledger=self.buffer.ledger.counts(len(self.buffer)),
            sample_ids=tuple(sample.id for sample in samples),
            reverse_kl=figures.pop("reverse_kl", None),
            **{**asdict(stats), "extra": {**stats.extra, **figures}},
        )
        self.folder.append_metrics(line)
        self._log_to_sinks({**dict(line), **line.extra})
        self.watcher.update(line)

    async def evaluate_if_due(self) -> None:
        settings, version = self.config.evaluation, self.learner.version
        periodic = settings.every > 0 and version % settings.every == 0
        if periodic or (settings.at_end and version == self.updates):
            await self._evaluate("student", self.evaluations.student)

    async def checkpoint_if_due(self) -> None:
        settings, version = self.config.checkpoint, self.learner.version
        kept = {*settings.keep_at, *self._best()}
        if version % settings.every == 0 or version == self.updates or version in kept:
            with self.clock.stage("checkpoint"):
                await self.learner.save(self.buffer.samples, self.state().to_json(), settings.keep, kept)
            self.folder.log(f"checkpoint of update {version}")

    def state(self) -> TrainerState:
        """What a resumed run needs beside weights, optimiser and buffered samples."""
        return TrainerState(
            delivered=self.rollouts.delivered,
            expected_contexts=self.rollouts.expected_contexts,
            probe=self.rollouts.probe,
            ledger=self.buffer.ledger.counts(len(self.buffer)),
            offsets=self.folder.offsets(),
            seconds=self.clock.seconds,
            elapsed=self.clock.elapsed,
            process_seconds=self.clock.process,
            evaluations=tuple(self.history),
        )

    async def finish(self) -> Summary:
        summary = self.summary()
        self.folder.write_summary(summary)
        self.watcher.finished(summary)
        return summary

    def summary(self) -> Summary:
        student = [point for point in self.history if point.who == "student"]
        teacher = [point for point in self.history if point.who == "teacher"]
        return Summary(
            title=self.title,
            updates=self.learner.version,
            success_rate=SuccessRates(
                before=student[0].success_rate if student and student[0].update == 0 else None,
                after=student[-1].success_rate if student else None,
                teacher=teacher[-1].success_rate if teacher else None,
            ),
            training_seconds=self.clock.training,
            process_seconds=self.clock.process,
            seconds_by_stage=self.clock.seconds,
            ledger=self.buffer.ledger.counts(len(self.buffer)),
            rollout_batches=self.rollouts.delivered,
            evaluations=tuple(self.history),
        )

    async def close(self) -> None:
        self.utilisation.close()
        self.watcher.close()
        try:
            await self.arrival.close()
            await self.rollouts.close()
            for sink in self.sinks:
                sink.close()
        finally:
            await self.learner.close()
            self.folder.close()

    def _log_to_sinks(self, values: Mapping[str, object]) -> None:
        numbers = {key: float(value) for key, value in values.items() if isinstance(value, (int, float))}
        for sink in self.sinks:
            sink.log(self.learner.version, numbers)

    def _best(self) -> set[int]:
        """The update with the student's best evaluation, the first of equal ones."""
        student = [point for point in self.history if point.who == "student"]
        if not student or not self.config.checkpoint.keep_best:
            return set()
        return {max(student, key=lambda point: (point.success_rate, -point.update)).update}

    def _evaluated(self, who: Who) -> bool:
        return any(point.who == who for point in self.history)

    async def _evaluate(self, who: Who, player: Player) -> None:
        if self.learner.version == self.updates:
            await self.rollouts.close()  # what is under way will not be used any more
        with self.clock.stage("rollout"):
            await self.rollouts.settle()  # so that no rollout hides in the time of an evaluation
        tasks, seeds = self.evaluations.tasks, self.config.evaluation.seeds
        runtime = self.config.runtime
        engines = runtime.rollout_engines if who == "student" else runtime.teacher_replicas
        at_once = in_play(self.config.evaluation, engines)
        done = count(1)

        def played(episode: Episode, seed: int) -> None:
            self.watcher.evaluating(who, next(done), len(tasks) * len(seeds))

        self.watcher.evaluating(who, 0, len(tasks) * len(seeds))
        with self.clock.stage(EVALUATION):
            evaluation = await evaluate(player, tasks, seeds, at_once, played)
        line = EvaluationLine.of(who, self.learner.version, self.clock.training, evaluation)
        self.history.append(line)
        self.folder.append_metrics(line)
        self.folder.log(f"{who}: success rate {line.success_rate:.2f} %")
        self._log_to_sinks({f"{who}_success_rate": line.success_rate})
        self.watcher.evaluated(line)


def _why_barren(batch: RolloutBatch) -> str:
    errors = [episode.error for episode in batch.episodes if episode.error]
    reasons = errors or [f"{count} x {reason}" for reason, count in batch.discarded.items()]
    return (
        f"{_BARREN_BATCHES} rollout batches in a row gave nothing to train on; the last one says: "
        f"{reasons[0] if reasons else 'no context was visited'}. Fix that and continue with --resume"
    )
