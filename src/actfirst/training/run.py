"""A training run's parts and bookkeeping: what the loop calls, and nothing about where the parts live.

Runtimes (local, Ray) build the parts; the loop drives them. Files are written here: every delivered batch, update
and evaluation becomes a line of the run folder before the loop goes on.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from typing import TYPE_CHECKING, Protocol

from actfirst.config.sections import Config
from actfirst.engines.base import Engine, EngineStats
from actfirst.errors import RolloutError
from actfirst.evaluate.protocol import Evaluator
from actfirst.evaluate.results import Evaluation
from actfirst.methods.acting import Policy
from actfirst.records import Episode, Task, TurnSample, UpdateStats
from actfirst.rollout.alignment_counts import count_alignment
from actfirst.rollout.buffer import SampleBuffer
from actfirst.rollout.collect import RolloutBatch
from actfirst.rollout.stream import RolloutStream
from actfirst.runs.episodes import episode_to_json
from actfirst.runs.run_folder import RunFolder
from actfirst.runs.sinks import Sink
from actfirst.training.clock import EVALUATION, StageClock
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

    def weights(self) -> Mapping[str, torch.Tensor]: ...

    async def save(
        self, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], keep: int
    ) -> None: ...

    async def close(self) -> None: ...


@dataclass(frozen=True)
class Evaluations:
    """Who is evaluated, on what."""

    evaluator: Evaluator
    tasks: Sequence[Task]
    student: Policy
    teacher: Policy


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
    history: list[dict[str, object]] = field(default_factory=list)
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
        succeeded = sum(bool(e.final and e.final.success) for e in batch.episodes)
        line: dict[str, object] = {
            "type": "batch",
            "batch": batch.index,
            "version": self.learner.version,
            "training_seconds": self.clock.training,
            "episodes": len(batch.episodes),
            "succeeded": succeeded,
            "failed": sum(e.error is not None for e in batch.episodes),
            "retried": sum(e.attempts - 1 for e in batch.episodes),
            "depth": batch.depth,
            "alignment": count_alignment(batch.episodes).to_json(),
            **asdict(batch.stats),
            "student_engine": asdict(self.student()),
            "teacher_engine": asdict(self.teacher()),
        }
        self.folder.append_episodes([episode_to_json(episode) for episode in batch.episodes])
        self.folder.append_metrics(line)
        self.watcher.batch(batch, line)
        self.barren = 0 if batch.samples else self.barren + 1
        if self.barren == _BARREN_BATCHES:
            raise RolloutError(_why_barren(batch))

    def record(self, samples: Sequence[TurnSample], stats: UpdateStats) -> None:
        """Write down an update; the ledger must balance at every one."""
        self.buffer.ledger.check(len(self.buffer))
        version = self.learner.version
        line: dict[str, object] = {
            "type": "update",
            "update": version,
            "training_seconds": self.clock.training,
            "stages": dict(self.clock.seconds),
            "mean_lag": sum(version - 1 - sample.version for sample in samples) / len(samples),
            "max_lag": max(version - 1 - sample.version for sample in samples),
            "ledger": self.buffer.ledger.to_json(len(self.buffer)),
            "sample_ids": [sample.id for sample in samples],
            **asdict(stats),
        }
        self.folder.append_metrics(line)
        self._log_to_sinks({**line, **stats.extra})
        self.watcher.update(line)

    async def evaluate_if_due(self) -> None:
        settings, version = self.config.evaluation, self.learner.version
        periodic = settings.every > 0 and version % settings.every == 0
        if periodic or (settings.at_end and version == self.updates):
            await self._evaluate("student", self.evaluations.student)

    async def checkpoint_if_due(self) -> None:
        settings, version = self.config.checkpoint, self.learner.version
        if version % settings.every == 0 or version == self.updates:
            with self.clock.stage("checkpoint"):
                await self.learner.save(self.buffer.samples, self.state(), settings.keep)
            self.folder.log(f"checkpoint of update {version}")

    def state(self) -> dict[str, object]:
        """What a resumed run needs beside weights, optimiser and buffered samples."""
        return {
            "delivered": self.rollouts.delivered,
            "expected_contexts": self.rollouts.expected_contexts,
            "probe": asdict(self.rollouts.probe) if self.rollouts.probe else None,
            "ledger": self.buffer.ledger.to_json(len(self.buffer)),
            "offsets": self.folder.offsets(),
            "seconds": dict(self.clock.seconds),
            "elapsed": self.clock.elapsed,
            "evaluations": self.history,
        }

    async def finish(self) -> dict[str, object]:
        summary = self.summary()
        self.folder.write_summary(summary)
        self.watcher.finished(summary)
        return summary

    def summary(self) -> dict[str, object]:
        student = [entry for entry in self.history if entry["who"] == "student"]
        teacher = [entry for entry in self.history if entry["who"] == "teacher"]
        return {
            "title": self.title,
            "updates": self.learner.version,
            "success_rate": {
                "before": student[0]["success_rate"] if student and student[0]["update"] == 0 else None,
                "after": student[-1]["success_rate"] if student else None,
                "teacher": teacher[-1]["success_rate"] if teacher else None,
            },
            "training_seconds": self.clock.training,
            "seconds_by_stage": dict(self.clock.seconds),
            "ledger": self.buffer.ledger.to_json(len(self.buffer)),
            "rollout_batches": self.rollouts.delivered,
            "evaluations": self.history,
        }

    async def close(self) -> None:
        self.watcher.close()
        try:
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

    def _evaluated(self, who: str) -> bool:
        return any(entry["who"] == who for entry in self.history)

    async def _evaluate(self, who: str, policy: Policy) -> Evaluation:
        if self.learner.version == self.updates:
            await self.rollouts.close()  # what is under way will not be used any more
        with self.clock.stage("rollout"):
            await self.rollouts.settle()  # so that no rollout hides in the time of an evaluation
        tasks, seeds = self.evaluations.tasks, self.config.evaluation.seeds
        done = count(1)

        def played(episode: Episode, seed: int) -> None:
            self.watcher.evaluating(who, next(done), len(tasks) * len(seeds))

        self.watcher.evaluating(who, 0, len(tasks) * len(seeds))
        with self.clock.stage(EVALUATION):
            evaluation = await self.evaluations.evaluator.evaluate(policy, tasks, seeds, played)
        entry: dict[str, object] = {
            "who": who,
            "update": self.learner.version,
            "training_seconds": self.clock.training,
            "success_rate": evaluation.overall.success_rate.mean,
            "deviation": evaluation.overall.success_rate.deviation,
        }
        self.history.append(entry)
        self.folder.append_metrics({"type": "evaluation", **entry, "result": evaluation.to_json()})
        self.folder.log(f"{who}: success rate {evaluation.overall.success_rate.mean:.2f} %")
        self._log_to_sinks({f"{who}_success_rate": evaluation.overall.success_rate.mean})
        self.watcher.evaluated(who, evaluation, self.clock.training)
        return evaluation


def _why_barren(batch: RolloutBatch) -> str:
    errors = [episode.error for episode in batch.episodes if episode.error]
    reasons = errors or [f"{count} x {reason}" for reason, count in batch.discarded.items()]
    return (
        f"{_BARREN_BATCHES} rollout batches in a row gave nothing to train on; the last one says: "
        f"{reasons[0] if reasons else 'no context was visited'}. Mend that and continue with --resume"
    )
