"""A training run's parts and bookkeeping: what the loop calls, and nothing about where the parts live.

Runtimes (local, Ray) build the parts; the loop drives them. Files are written here: every delivered batch, update
and evaluation becomes a line of the run folder before the loop goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence, Set
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from actfirst.config.config import Config
from actfirst.engines.base import Engine
from actfirst.errors import RolloutError
from actfirst.evaluate.protocol import evaluate
from actfirst.methods.objective import Objective
from actfirst.methods.table import method_of
from actfirst.records import EngineStats, Episode, Task, TurnSample, UpdateStats
from actfirst.references.rollouts import RolloutReferences
from actfirst.rollout.buffer import SampleBuffer
from actfirst.rollout.collect import RolloutBatch
from actfirst.rollout.play import Player
from actfirst.rollout.stream import RolloutStream
from actfirst.rollout.together import cancelled
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
from actfirst.runs.tracking import (
    COLUMNS,
    ROLLOUTS,
    batch_values,
    evaluation_values,
    rollout_rows,
    update_values,
)
from actfirst.training.arrival import Arrival
from actfirst.training.clock import START_UP, StageClock, process_age
from actfirst.training.playing import in_play
from actfirst.training.stopping import Stop
from actfirst.training.storing import Storing
from actfirst.training.utilisation import Utilisation
from actfirst.training.watch import Watcher

if TYPE_CHECKING:
    import torch

    from actfirst.learning.checkpoint import Checkpoint

_BARREN_BATCHES = 3
_BATCHES_PER_TABLE = 10
_TO_CLOSE = 5.0  # seconds that ending engines and a cluster may take
CHECKPOINT = "checkpoint"


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

    def weights(self, *, averaged: bool = False) -> Mapping[str, torch.Tensor]: ...

    async def save(
        self, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], keep: int, also: Set[int]
    ) -> None:
        """Write a checkpoint; of the older ones the newest `keep` stay, and those of the updates in `also`."""
        ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Evaluations:
    """Who is evaluated, on what; before the first update on `first_tasks`."""

    tasks: Sequence[Task]
    first_tasks: Sequence[Task]
    student: Player
    teacher: Player


@dataclass
class Training:
    """One run under way. Also the `EngineView` of whoever watches it. `stored` is its newest checkpoint's update."""

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
    prove: Callable[[], Coroutine[Any, Any, None]]
    utilisation: Utilisation
    arrival: Arrival
    stop: Stop
    storing: Storing
    stored: int = 0
    history: list[EvaluationPoint] = field(default_factory=list)
    barren: int = 0
    _deadline: asyncio.Task[None] | None = field(default=None, init=False)

    @property
    def objective(self) -> Objective:
        return method_of(self.config.rollout.method, self.config.methods).objective

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

    def episodes_left(self) -> int:
        return sum(self._evaluations_left()) * len(self.config.evaluation.seeds)

    async def begin(self) -> None:
        """Prove that the parts fit together, then measure where the student stands."""
        self.watcher.started(self.title, self.updates, self.learner.version, self)
        self.utilisation.start()
        if limit := self.config.run.deadline:
            self._deadline = asyncio.ensure_future(self.stop.before(lambda: self._seconds_left(limit)))
        self.watcher.preparing("checking that models, engines and world fit together")
        with self.clock.stage(START_UP):
            await self.stop.unless(self.prove())
        if self.config.evaluation.at_start and not self._evaluated("student"):
            await self._evaluate("student", self.evaluations.student)
        await self.evaluate_if_due()  # the last process may have been stopped before it could
        self.watcher.preparing("collecting rollouts")

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
            covered=None if batch.covered is None else 100.0 * batch.covered,
            **asdict(batch.stats),
            student_engine=self.student(),
            teacher_engine=self.teacher(),
        )
        self.folder.later(lambda: self.folder.append_episodes(map(EpisodeLine.of, batch.episodes)))
        self.folder.append_metrics(line)
        self._track(batch_values(line))
        self._show_rollouts(batch)
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
        figures = self.objective.figures(samples)
        if self.arrival.gap is not None:
            figures["weights_gap"] = self.arrival.gap  # of the sync before
        line = UpdateLine(
            update=version,
            training_seconds=self.clock.training,
            stages=self.clock.accounts(),
            mean_lag=sum(lags) / len(lags),
            max_lag=max(lags),
            ledger=self.buffer.ledger.counts(len(self.buffer)),
            sample_ids=tuple(sample.id for sample in samples),
            reverse_kl=figures.pop("reverse_kl", None),
            **{**asdict(stats), "extra": {**stats.extra, **figures}},
        )
        self.folder.append_metrics(line)
        self.storing.trained(samples, version)
        self._track(update_values(line))
        self.watcher.update(line)

    async def evaluate_if_due(self) -> None:
        """The student where the recipe asks for it; with its first evaluation after the start, or at the end, the
        teacher, for which nobody waits before the first update."""
        version = self.learner.version
        if due := self._due(version):
            await self._evaluate("student", self.evaluations.student)
        wanted = self.config.evaluation.teacher and not self._evaluated("teacher")
        if wanted and (due or version == self.updates):
            await self._evaluate("teacher", self.evaluations.teacher)

    async def checkpoint_if_due(self) -> None:
        settings, version = self.config.checkpoint, self.learner.version
        kept = {*settings.keep_at, *self._best()}
        if version % settings.every == 0 or version == self.updates or version in kept:
            await self._checkpoint(kept)

    async def checkpoint_before_the_end(self) -> None:
        """Write down what was learned since the newest checkpoint."""
        if self.learner.version > self.stored:
            self.watcher.preparing("storing a checkpoint before the end")
            await self._checkpoint({*self.config.checkpoint.keep_at, *self._best()})

    async def _checkpoint(self, kept: set[int]) -> None:
        with self.clock.stage(CHECKPOINT):
            keep = self.config.checkpoint.keep
            await self.learner.save(self.buffer.samples, self.state().to_json(), keep, kept)
        self.stored = self.learner.version
        self.folder.log(f"checkpoint of update {self.stored}")

    def state(self) -> TrainerState:
        """What a resumed run needs beside weights, optimiser and buffered samples."""
        references = self.rollouts.collector.player.references
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
            references=references.found if isinstance(references, RolloutReferences) else {},
        )

    async def finish(self) -> Summary:
        summary = self.summary()
        self.folder.write_summary(summary)
        self.watcher.finished(summary)
        return summary

    def summary(self) -> Summary:
        student = [point for point in self.history if point.who == "student"]
        teacher = [point for point in self.history if point.who == "teacher"]
        accounts = self.clock.accounts()
        return Summary(
            title=self.title,
            updates=self.learner.version,
            success_rate=SuccessRates(
                before=student[0].success_rate if student and student[0].update == 0 else None,
                after=student[-1].success_rate if student else None,
                teacher=teacher[-1].success_rate if teacher else None,
            ),
            training_seconds=sum(accounts.values()) - accounts.get(EVALUATION, 0.0),
            process_seconds=self.clock.process,
            seconds_by_stage=accounts,
            ledger=self.buffer.ledger.counts(len(self.buffer)),
            rollout_batches=self.rollouts.delivered,
            evaluations=tuple(self.history),
        )

    async def close(self) -> None:
        if self._deadline is not None:
            await cancelled([self._deadline])
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

    def _seconds_left(self, deadline: float) -> float:
        """Until a stop has to be asked for: an update may be under way, and a checkpoint follows it."""
        longest = self.clock.longest
        needed = sum(longest.get(stage, 0.0) for stage in ("update", "sync", CHECKPOINT))
        return deadline - process_age() - 1.5 * needed - _TO_CLOSE

    def _track(self, values: Mapping[str, float]) -> None:
        for sink in self.sinks:
            sink.log(self.learner.version, values)

    def _show_rollouts(self, batch: RolloutBatch) -> None:
        """The first rollouts of every tenth batch, as a table."""
        rows = rollout_rows(batch.episodes[: self.config.tracking.rollouts])
        if rows and batch.index % _BATCHES_PER_TABLE == 0:
            for sink in self.sinks:
                sink.table(self.learner.version, ROLLOUTS, COLUMNS, rows)

    def _evaluations_left(self) -> list[int]:
        """The tasks of each evaluation that is still to be made."""
        settings, version = self.config.evaluation, self.learner.version
        first = settings.at_start and version == 0 and not self._evaluated("student")
        teacher = settings.teacher and not self._evaluated("teacher")
        later = sum(map(self._due, range(version, self.updates + 1)))
        return [len(self.evaluations.first_tasks)] * first + [len(self.evaluations.tasks)] * (teacher + later)

    def _due(self, version: int) -> bool:
        """Whether the student is evaluated after this update, and was not."""
        settings = self.config.evaluation
        periodic = settings.every > 0 and version > 0 and version % settings.every == 0
        wanted = periodic or (settings.at_end and version == self.updates)
        return wanted and not any(p.who == "student" and p.update == version for p in self.history)

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
            await self.stop.unless(self.rollouts.settle())  # so that none hides in the time of an evaluation
        first = who == "student" and self.learner.version == 0
        tasks = self.evaluations.first_tasks if first else self.evaluations.tasks
        seeds = self.config.evaluation.seeds
        runtime = self.config.runtime
        engines = runtime.rollout_engines if who == "student" else runtime.teacher_replicas
        at_once = in_play(self.config.evaluation, engines)
        episodes: list[tuple[Episode, int]] = []

        def played(episode: Episode, seed: int) -> None:
            episodes.append((episode, seed))
            self.watcher.evaluating(who, len(episodes), len(tasks) * len(seeds))

        self.watcher.evaluating(who, 0, len(tasks) * len(seeds))
        with self.clock.stage(EVALUATION):
            async with self._averaged_weights(who):
                evaluation = await self.stop.unless(evaluate(player, tasks, seeds, at_once, played))
        line = EvaluationLine.of(who, self.learner.version, self.clock.training, evaluation)
        self.history.append(line)
        self.folder.append_metrics(line)
        self.folder.log(f"{who}: success rate {line.success_rate:.2f} %")
        self.storing.evaluated(who, line.update, episodes, len(self._evaluations_left()))
        self._track(evaluation_values(line))
        self.watcher.evaluated(line)

    @asynccontextmanager
    async def _averaged_weights(self, who: Who) -> AsyncIterator[None]:
        """The student's engine has the averaged weights meanwhile, where they are kept."""
        version = self.learner.version
        if who != "student" or not self.config.learner.average or not version:
            yield
            return
        await self.arrival.settle()  # it compares engines with the weights of the update
        await self.engine.load_weights(self.learner.weights(averaged=True), version)
        yield
        await self.engine.load_weights(self.learner.weights(), version)


def _why_barren(batch: RolloutBatch) -> str:
    errors = [episode.error for episode in batch.episodes if episode.error]
    reasons = errors or [f"{count} x {reason}" for reason, count in batch.discarded.items()]
    return (
        f"{_BARREN_BATCHES} rollout batches in a row gave nothing to train on; the last one says: "
        f"{reasons[0] if reasons else 'no context was visited'}. Fix that and continue with --resume"
    )
