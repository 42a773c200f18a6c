"""What metric services are told of a run, by names that group: `train/loss`, `alignment/first_action`, ...

Pure functions of the lines of metrics.jsonl; docs/tracking.md lists the names. The step is the number of updates.
"""

from __future__ import annotations

from collections.abc import Sequence

from actfirst.records import Episode, Verdict
from actfirst.runs.lines import BatchLine, EvaluationLine, SftLine, UpdateLine

ROLLOUTS = "rollout/samples"
COLUMNS = ("task", "success", "turns", "where it left the reference", "transcript")
_LEFT = (Verdict.DIVERGED, Verdict.INVALID_PROPOSAL)
_MOST_CHARACTERS = 6000


def update_values(line: UpdateLine) -> dict[str, float]:
    """Of an update: learning, lag, seconds by stage, and the ledger."""
    ledger = line.ledger
    figures = {
        "train/loss": line.loss,
        "train/reverse_kl": line.reverse_kl,
        "train/grad_norm": line.grad_norm,
        "train/clip_fraction": line.clip_fraction,
        "train/advantage": line.advantage,
        "train/supervised_tokens": line.supervised_tokens,
        "train/samples": line.samples,
        "lag/mean": line.mean_lag,
        "lag/max": line.max_lag,
        "time/training_seconds": line.training_seconds,
        "time/update_seconds": line.seconds,
        "throughput/trained_tokens_per_second": line.tokens / line.seconds if line.seconds else None,
        "ledger/generated": ledger.generated,
        "ledger/trained": ledger.trained,
        "ledger/discarded": sum(ledger.discarded.values()),
        "ledger/buffered": ledger.buffered,
        **{f"train/{name}": value for name, value in line.extra.items()},
        **{f"stage/{name}_seconds": seconds for name, seconds in line.stages.items()},
        **{f"ledger/discarded/{reason}": count for reason, count in ledger.discarded.items()},
    }
    return {name: float(value) for name, value in figures.items() if value is not None}


def batch_values(line: BatchLine) -> dict[str, float]:
    """Of a rollout batch: success, alignment, throughput, queues."""
    rates, seconds = line.alignment.rates(), line.seconds
    figures: dict[str, float] = {
        "rollout/failed": line.failed,
        "rollout/retried": line.retried,
        "rollout/depth": line.depth,
        "rollout/transitions": line.transitions,
        "rollout/seconds": seconds,
        "rollout/scoring_seconds": line.scoring_seconds,
        **{f"alignment/{name}": rate for name, rate in rates.items()},
    }
    if line.covered is not None:
        figures["alignment/tasks_with_reference"] = line.covered
    if line.episodes:
        figures["rollout/success"] = 100.0 * line.succeeded / line.episodes
        figures["rollout/turns"] = line.transitions / line.episodes
    if seconds:
        figures |= {
            "throughput/transitions_per_second": line.transitions / seconds,
            "throughput/fast_tokens_per_second": line.fast_tokens / seconds,
            "throughput/full_tokens_per_second": line.full_tokens / seconds,
        }
    for who, engine in (("student", line.student_engine), ("teacher", line.teacher_engine)):
        if engine is not None:
            figures |= {f"engine/{who}_running": engine.running, f"engine/{who}_waiting": engine.waiting}
    return {name: float(value) for name, value in figures.items()}


def evaluation_values(line: EvaluationLine) -> dict[str, float]:
    """Of an evaluation: success over all, by split and by task type. The teacher has a group of its own."""
    group = "evaluation" if line.who == "student" else "evaluation_teacher"
    figures = {f"{group}/success": line.success_rate}
    if (result := line.result) is not None:
        figures |= {
            f"{group}/score": result.overall.score.mean,
            f"{group}/rounds": result.overall.rounds.mean,
            f"{group}/errors": result.errors,
            f"{group}/seconds": result.seconds,
            **{f"{group}/split/{name}": one.success_rate.mean for name, one in result.by_split.items()},
            **{f"{group}/task/{name}": one.success_rate.mean for name, one in result.by_kind.items()},
        }
    return {name: float(value) for name, value in figures.items()}


def sft_values(line: SftLine) -> dict[str, float]:
    """Of a step of supervised fine-tuning."""
    figures = {
        "sft/loss": line.loss,
        "sft/held_out_loss": line.held_out,
        "sft/grad_norm": line.grad_norm,
        "sft/learning_rate": line.learning_rate,
        "throughput/trained_tokens_per_second": line.tokens / line.seconds if line.seconds else None,
        "time/training_seconds": line.training_seconds,
    }
    return {name: float(value) for name, value in figures.items() if value is not None}


def rollout_rows(episodes: Sequence[Episode]) -> list[list[str]]:
    """Rollouts as rows under COLUMNS."""
    return [
        [
            episode.task.id,
            "yes" if episode.final and episode.final.success else episode.error or "no",
            str(len(episode.turns)),
            next((f"turn {t.number}: {t.verdict}" for t in episode.turns if t.verdict in _LEFT), ""),
            _transcript(episode),
        ]
        for episode in episodes
    ]


def _transcript(episode: Episode) -> str:
    parts = [f"{turn.observation.strip()}\n> {turn.action}  [{turn.source}]" for turn in episode.turns]
    text = "\n\n".join([*parts, episode.final.text.strip() if episode.final else ""])
    return text if len(text) <= _MOST_CHARACTERS else text[:_MOST_CHARACTERS] + " ..."
