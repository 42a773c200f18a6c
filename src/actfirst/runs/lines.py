"""The lines of metrics.jsonl, summary.json, and the trainer's part of a checkpoint.

`Training` makes these records; the run folder writes them, watchers are told of them, reports read them back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from actfirst.errors import RunFolderError
from actfirst.records import EngineStats, Episode, Probe, Verdict
from actfirst.runs.evaluations import Evaluation
from actfirst.runs.record import Record, first_fault

EVALUATION = "evaluation"
"""The stage that is no part of training time."""
Who = Literal["student", "teacher"]
Measured = Annotated[
    float | None, AfterValidator(lambda value: value if value is None or isfinite(value) else None)
]
"""None where it was not finite: JSON has no NaN."""


class LedgerCounts(Record):
    """Full responses since the run began: generated = trained + discarded + buffered."""

    generated: int = 0
    trained: int = 0
    discarded: dict[str, int] = Field(default_factory=dict)
    buffered: int = 0
    generated_tokens: int = 0
    trained_tokens: int = 0


class AlignmentCounts(Record):
    """Rollouts with reference guidance, and how far each followed it (paper, "Reference Alignment During Training").

    `turns` counts all executed turns. Counts add up over batches.
    """

    guided: int = 0
    first_aligned: int = 0
    fully_aligned: int = 0
    aligned_turns: int = 0
    turns: int = 0

    @classmethod
    def of(cls, episodes: Iterable[Episode]) -> AlignmentCounts:
        """Sum over rollouts; unguided ones add nothing."""
        return cls.sum(_alignment(episode) for episode in episodes if episode.guided)

    @classmethod
    def sum(cls, counts: Iterable[AlignmentCounts]) -> AlignmentCounts:
        parts = list(counts)
        return cls(**{name: sum(getattr(part, name) for part in parts) for name in cls.model_fields})

    def rates(self) -> dict[str, float]:
        """First-action and full-trajectory alignment and turn coverage in percent; empty without guidance."""
        if not self.guided or not self.turns:
            return {}
        return {
            "first_action": 100.0 * self.first_aligned / self.guided,
            "full_trajectory": 100.0 * self.fully_aligned / self.guided,
            "turn_coverage": 100.0 * self.aligned_turns / self.turns,
        }


def _alignment(episode: Episode) -> AlignmentCounts:
    aligned = [turn.verdict is Verdict.ALIGNED for turn in episode.turns]
    final = episode.final
    complete = aligned and all(aligned) and len(aligned) == episode.reference_length and final and final.done
    return AlignmentCounts(
        guided=1,
        first_aligned=bool(aligned and aligned[0]),
        fully_aligned=bool(complete),
        aligned_turns=sum(aligned),
        turns=len(aligned),
    )


class _Typed(Record):
    type: str


class BatchLine(_Typed):
    """One delivered rollout batch. `depth` is how many turns its rollouts were allowed, `scoring_seconds` how long the
    teacher computed while it was collected, `covered` the percentage of training tasks that have a reference after it
    (with `references.source = "rollouts"`)."""

    type: Literal["batch"] = "batch"
    batch: int
    version: int = 0
    training_seconds: float
    episodes: int
    succeeded: int
    failed: int
    retried: int = 0
    depth: int = 0
    alignment: AlignmentCounts
    covered: float | None = None
    seconds: float = 0.0
    transitions: int
    contexts: int = 0
    fast_requests: int = 0
    fast_tokens: int
    full_responses: int
    full_tokens: int
    failed_contexts: int = 0
    scoring_seconds: float
    student_engine: EngineStats | None = None
    teacher_engine: EngineStats | None = None


class UpdateLine(_Typed):
    """One optimiser update. A number that was not finite is None; `reverse_kl` is a figure of distillation."""

    type: Literal["update"] = "update"
    update: int
    training_seconds: float
    stages: dict[str, float]
    mean_lag: float = 0.0
    max_lag: int = 0
    ledger: LedgerCounts
    sample_ids: tuple[str, ...] = ()
    loss: Measured
    reverse_kl: Measured = None
    grad_norm: Measured
    clip_fraction: Measured = None
    advantage: Measured = None
    tokens: int = 0
    supervised_tokens: int = 0
    samples: int = 0
    seconds: float = 0.0
    extra: dict[str, Measured] = Field(default_factory=dict)


class SftLine(_Typed):
    """One step of supervised fine-tuning. Losses are per response token; `held_out` is that of what is not trained on,
    where it was measured; the first step also says what it was `held_out_before`."""

    type: Literal["sft"] = "sft"
    step: int
    training_seconds: float
    loss: Measured
    held_out_before: Measured = None
    held_out: Measured = None
    grad_norm: Measured
    learning_rate: float
    examples: int
    tokens: int
    response_tokens: int
    computed_tokens: int = 0
    seconds: float


class EvaluationPoint(Record):
    """Success (%) of the student or the teacher after an update, on so many tasks (0: unknown)."""

    who: Who
    update: int
    training_seconds: float
    success_rate: float
    deviation: float | None = None
    tasks: int = 0


class EvaluationLine(EvaluationPoint, _Typed):  # in this order, so that `type` is the first key of the line
    """One evaluation; `result` is all of it, by split and task type."""

    type: Literal["evaluation"] = "evaluation"
    result: Evaluation | None = None

    @classmethod
    def of(cls, who: Who, update: int, training_seconds: float, result: Evaluation) -> EvaluationLine:
        success = result.overall.success_rate
        return cls(
            who=who,
            update=update,
            training_seconds=training_seconds,
            success_rate=success.mean,
            deviation=success.deviation,
            tasks=result.overall.tasks,
            result=result.summary,
        )


Line = BatchLine | UpdateLine | EvaluationLine | SftLine
_LINE: TypeAdapter[Line] = TypeAdapter(Annotated[Line, Field(discriminator="type")])
KINDS = ("batch", "update", "evaluation", "sft")


def parse_line(data: Mapping[str, object], where: str) -> Line:
    """One line of metrics.jsonl as a record."""
    try:
        return _LINE.validate_python(data)
    except ValidationError as error:
        raise RunFolderError(f"{where} cannot be read: {first_fault(error)}") from error


class SuccessRates(Record):
    """Percent; None where nobody measured."""

    before: float | None = None
    after: float | None = None
    teacher: float | None = None


class Summary(Record):
    """The result of a finished run. `process_seconds` are from the launch of its process to its end, evaluations
    included; those of all processes of a run that was resumed. 0 where an older version wrote it."""

    title: str
    updates: int
    success_rate: SuccessRates
    training_seconds: float
    process_seconds: float = 0.0
    seconds_by_stage: dict[str, float]
    ledger: LedgerCounts
    rollout_batches: int = 0
    evaluations: tuple[EvaluationPoint, ...] = ()


class SftData(Record):
    """What one source of demonstrations gave: examples by mode, and what was left out by reason."""

    source: str
    trajectories: int
    kept: int
    examples: dict[str, int]
    dropped: dict[str, int]


class SftSummary(Summary):
    """The result of supervised fine-tuning. `held_out` is the loss before and after, None where nothing is held out."""

    data: tuple[SftData, ...]
    examples: int
    held_out_examples: int
    first_loss: Measured
    last_loss: Measured
    held_out: tuple[Measured, Measured]
    tokens: int
    tokens_per_second: float


class TrainerState(Record):
    """What a checkpoint keeps of a run beside weights, optimiser and buffered samples. `references` are the actions
    that solved a task, where rollouts are the references."""

    delivered: int
    expected_contexts: float
    probe: Probe | None = None
    ledger: LedgerCounts
    offsets: dict[str, int]
    seconds: dict[str, float]
    elapsed: float
    process_seconds: float = 0.0
    evaluations: tuple[EvaluationPoint, ...]
    references: dict[str, tuple[str, ...]] = Field(default_factory=dict)

    @property
    def training_seconds(self) -> float:
        return self.elapsed - self.seconds.get(EVALUATION, 0.0)
