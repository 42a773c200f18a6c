"""Supervised fine-tuning as a run: examples from demonstrations, steps, checkpoints, held-out loss, an evaluation.

Paper, appendix "Teacher Training": how the ALFWorld and WebShop teachers begin. The learner is the one of distillation,
in this process or as ranks on Ray; the run folder, its checkpoints and resuming are those of every run. Examples are
made again when a run is resumed, and must be the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Protocol

from actfirst.config.config import Config
from actfirst.config.load import dump_toml
from actfirst.config.sections import LearnerSection
from actfirst.errors import RunFolderError, RunStopped
from actfirst.learning.sft import as_samples, batch_at, digest, rate_at
from actfirst.models.folder import quiet_libraries, resolve_model
from actfirst.policy.tokens import open_encoder
from actfirst.records import TurnSample, UpdateStats
from actfirst.runs.files import write_json
from actfirst.runs.lines import (
    EVALUATION,
    EvaluationLine,
    EvaluationPoint,
    LedgerCounts,
    SftLine,
    SftSummary,
    SuccessRates,
    TrainerState,
)
from actfirst.runs.record import read_object
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import RunFolder
from actfirst.runs.sinks import Sink, check_sinks, open_sinks
from actfirst.runs.tracking import evaluation_values, sft_values
from actfirst.training.checkpoints import Checkpoints, Taker
from actfirst.training.clock import StageClock
from actfirst.training.open import start_learner, stored_state, tracked
from actfirst.training.sft_examples import Examples, read_examples
from actfirst.training.stopping import Stop

if TYPE_CHECKING:
    from actfirst.learning.checkpoint import Checkpoint

DATA = "data.json"
_WINDOW = 10  # steps over which the first and the last loss are taken


class SftLearner(Taker, Protocol):
    """The learner as fine-tuning sees it, wherever it runs."""

    async def open(self, checkpoint: Checkpoint | None) -> None: ...

    async def fit(self, samples: Sequence[TurnSample], rate: float) -> UpdateStats: ...

    async def measure(self, samples: Sequence[TurnSample]) -> float: ...

    async def close(self) -> None: ...


class SftWatcher:
    """Told of everything that a person may want to see. This one looks at nothing."""

    def reading(self, done: int, of: int, source: str) -> None: ...

    def started(self, steps: int, done: int, examples: Examples) -> None: ...

    def step(self, line: SftLine) -> None: ...

    def evaluating(self, done: int, of: int) -> None: ...

    def finished(self, summary: SftSummary) -> None: ...


def fine_tune(
    config: Config, folder: Path, *, resume: bool = False, watcher: SftWatcher | None = None
) -> SftSummary:
    """Fine-tune `models.student` as the recipe says, to the end or from where a stopped run stands.

    SIGTERM and Ctrl-C finish the step, store a checkpoint and raise RunStopped.
    """

    async def to_the_end() -> SftSummary:
        stop = Stop()
        stop.on_signals()
        try:
            return await _fine_tune(config, folder, resume, watcher or SftWatcher(), stop)
        except asyncio.CancelledError:
            stop.check()
            raise

    return asyncio.run(to_the_end())


async def _fine_tune(config: Config, folder: Path, resume: bool, watcher: SftWatcher, stop: Stop) -> SftSummary:
    quiet_libraries()
    check_sinks(config.tracking.sinks)
    student = resolve_model(config.models.student, "models.student")
    config = config.model_copy(update={"learner": _without_rewards(config.learner)})
    # In a thread: worlds in processes of their own are replayed by an event loop of its own.
    examples = await asyncio.to_thread(read_examples, config, open_encoder(student), watcher.reading)
    async with AsyncExitStack() as opened:
        begin = RunFolder.open if resume else RunFolder.create
        run_folder = opened.enter_context(begin(folder, dump_toml(config)))
        _claim(run_folder.path / DATA, examples)
        if config.runtime.kind == "ray":
            _start_cluster(config, opened)
        learner = start_learner(config, student, run_folder.checkpoints)
        opened.push_async_callback(learner.close)
        state, checkpoint = stored_state(run_folder)
        run_folder.rewind(state.offsets)
        await learner.open(checkpoint)
        clock = StageClock(state.seconds, state.elapsed)
        checkpoints = Checkpoints(learner, config.checkpoint, clock, run_folder.log, learner.version)
        opened.push_async_callback(checkpoints.close)
        run = _Run(
            config=config,
            folder=run_folder,
            learner=learner,
            examples=examples,
            watcher=watcher,
            clock=clock,
            checkpoints=checkpoints,
            evaluations=list(state.evaluations),
            sinks=open_sinks(config.tracking.sinks, tracked(config, run_folder.path)),
            stop=stop,
        )
        stop.on_signals()  # Ray has taken them
        stop.opened()
        return await run.to_the_end()


def _claim(path: Path, examples: Examples) -> None:
    """A run continues with the data that it began with."""
    made = {
        "digest": digest([*examples.train, *examples.held_out]),
        "examples": len(examples.train),
        "held_out": len(examples.held_out),
        "data": [one.to_json() for one in examples.data],
    }
    if path.is_file() and (before := read_object(path)).get("digest") != made["digest"]:
        raise RunFolderError(
            f"the data has changed since this run began ({path}: {before.get('examples')} examples then, "
            f"{made['examples']} now); bring the old data back, or start a new run"
        )
    write_json(path, made)


def _without_rewards(learner: LearnerSection) -> LearnerSection:
    """The learner's settings but for those that methods of rewards bring."""
    plain, brought = LearnerSection(), ("whole_batches", "aggregation", "kl_weight", "entropy_weight")
    return learner.model_copy(update={name: getattr(plain, name) for name in brought})


def _start_cluster(config: Config, opened: AsyncExitStack) -> None:
    """A cluster with room for the learner alone."""
    from actfirst.training.ray.cluster import Demands, cluster

    wanted = Demands.of(config)
    nothing = {name: replace(getattr(wanted, name), count=0) for name in ("engine", "teacher", "environment")}
    opened.enter_context(cluster(config.runtime, replace(wanted, **nothing)))


@dataclass
class _Run:
    config: Config
    folder: RunFolder
    learner: SftLearner
    examples: Examples
    watcher: SftWatcher
    clock: StageClock
    checkpoints: Checkpoints
    evaluations: list[EvaluationPoint]
    sinks: Sequence[Sink]
    stop: Stop

    async def to_the_end(self) -> SftSummary:
        settings = self.config.sft
        self.folder.log(f"started at step {self.learner.version} of {settings.steps}")
        self.watcher.started(settings.steps, self.learner.version, self.examples)
        try:
            while self.learner.version < settings.steps:
                self.stop.check()
                await self._step()
            await self.checkpoints.settle()
            if self.config.evaluation.at_end and not self.evaluations:
                await self._evaluate()
        except RunStopped:
            await self.checkpoints.settle()
            if self.learner.version > self.checkpoints.stored:
                await self.checkpoints.save((), self._state)
                await self.checkpoints.settle()
            raise
        finally:
            for sink in self.sinks:
                sink.close()
        summary = self._summary()
        self.folder.write_summary(summary)
        self.watcher.finished(summary)
        return summary

    async def _step(self) -> None:
        settings, step = self.config.sft, self.learner.version
        batch = batch_at(step, self.examples.train, settings.batch_size, self.config.run.seed)
        rate = rate_at(step, settings)
        before = await self._held_out() if step == 0 else None  # before anything is learned
        with self.clock.stage("update"):
            stats = await self.learner.fit(as_samples(batch, settings.prompt_weight), rate)
        done = self.learner.version
        last = done == settings.steps
        due = last or (settings.held_out_every and done % settings.held_out_every == 0)
        line = SftLine(
            step=done,
            training_seconds=self.clock.training,
            loss=stats.loss,
            held_out_before=before,
            held_out=await self._held_out() if due else None,
            grad_norm=stats.grad_norm,
            learning_rate=rate,
            examples=len(batch),
            tokens=stats.tokens,
            response_tokens=sum(len(example.response_ids) for example in batch),
            computed_tokens=int(stats.extra["computed_tokens"]),
            seconds=stats.seconds,
        )
        self.folder.append_metrics(line)
        for sink in self.sinks:
            sink.log(done, sft_values(line))
        self.watcher.step(line)
        self.checkpoints.check()
        if last or done % self.config.checkpoint.every == 0:
            await self.checkpoints.save((), self._state)

    async def _held_out(self) -> float | None:
        """The loss on what is not trained on, all of it as one batch."""
        if not self.examples.held_out:
            return None
        with self.clock.stage("held out"):
            return await self.learner.measure(as_samples(self.examples.held_out))

    def _state(self) -> dict[str, object]:
        return TrainerState(
            delivered=0,
            expected_contexts=0.0,
            ledger=LedgerCounts(),
            offsets=self.folder.offsets(),
            seconds=self.clock.seconds,
            elapsed=self.clock.elapsed,
            evaluations=tuple(self.evaluations),
        ).to_json()

    async def _evaluate(self) -> None:
        from actfirst.training.playing import evaluate_model

        model = open_run(self.folder.path).checkpoints()[-1].model
        with self.clock.stage(EVALUATION):
            result = await self.stop.unless(evaluate_model(self.config, model, self.watcher.evaluating))
        line = EvaluationLine.of("student", self.learner.version, self.clock.training, result)
        self.folder.append_metrics(line)
        self.folder.log(f"success rate {line.success_rate:.2f} %")
        self.evaluations.append(line)
        for sink in self.sinks:
            sink.log(self.learner.version, evaluation_values(line))

    def _summary(self) -> SftSummary:
        lines = [line for line in open_run(self.folder.path).lines if isinstance(line, SftLine)]
        losses = [line.loss for line in lines if line.loss is not None]
        measured = [line.held_out for line in lines if line.held_out is not None]
        tokens, seconds = sum(line.tokens for line in lines), sum(line.seconds for line in lines)
        return SftSummary(
            title=f"supervised fine-tuning on {self.config.environment.name}",
            updates=self.learner.version,
            success_rate=SuccessRates(after=self.evaluations[-1].success_rate if self.evaluations else None),
            training_seconds=self.clock.training,
            seconds_by_stage=self.clock.seconds,
            ledger=LedgerCounts(),
            evaluations=tuple(self.evaluations),
            data=self.examples.data,
            examples=len(self.examples.train),
            held_out_examples=len(self.examples.held_out),
            first_loss=fmean(losses[:_WINDOW]),
            last_loss=fmean(losses[-_WINDOW:]),
            held_out=(lines[0].held_out_before, measured[-1] if measured else None),
            tokens=tokens,
            tokens_per_second=round(tokens / max(seconds, 1e-9), 1),
        )
