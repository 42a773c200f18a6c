"""Writes finished run folders by hand, for tests of what reads them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

ALIGNMENT = {"guided": 4, "first_aligned": 3, "fully_aligned": 2, "aligned_turns": 10, "turns": 20}
NO_ALIGNMENT = dict.fromkeys(ALIGNMENT, 0)


def evaluation(update: int, seconds: float, success: float, who: str = "student") -> dict[str, object]:
    return {
        "type": "evaluation",
        "who": who,
        "update": update,
        "training_seconds": seconds,
        "success_rate": success,
        "deviation": None,
    }


def batch(
    index: int, *, succeeded: int = 1, alignment: Mapping[str, int] = ALIGNMENT, seconds: float = 1.0
) -> dict[str, object]:
    """A batch of 4 episodes with 20 transitions, 5 full responses and half a second of scoring."""
    return {
        "type": "batch",
        "batch": index,
        "training_seconds": seconds,
        "episodes": 4,
        "succeeded": succeeded,
        "failed": 0,
        "alignment": dict(alignment),
        "transitions": 20,
        "fast_tokens": 100,
        "full_responses": 5,
        "full_tokens": 250,
        "scoring_seconds": 0.5,
        "a_field_of_the_future": True,
    }


def update(number: int, seconds: float, reverse_kl: float | None = 0.5) -> dict[str, object]:
    return {
        "type": "update",
        "update": number,
        "training_seconds": seconds,
        "stages": {"rollout": 0.7 * seconds, "update": 0.3 * seconds},
        "ledger": ledger(10 * number),
        "loss": 0.25,
        "reverse_kl": reverse_kl,
        "grad_norm": 1.5,
    }


def ledger(generated: int) -> dict[str, object]:
    return {"generated": generated, "trained": generated - 3, "discarded": {"stale": 2}, "buffered": 1}


def summary(
    seconds: float,
    *,
    before: float | None = 10.0,
    after: float | None = 60.0,
    title: str = "Method on toy",
    updates: int = 8,
) -> dict[str, object]:
    return {
        "title": title,
        "updates": updates,
        "success_rate": {"before": before, "after": after, "teacher": 80.0},
        "training_seconds": seconds,
        "seconds_by_stage": {"rollout": 0.6 * seconds, "update": 0.4 * seconds, "evaluation": 7.0},
        "ledger": ledger(20),
    }


def write_run(
    folder: Path,
    *,
    seed: int,
    seconds: float,
    curve: Sequence[tuple[int, float, float]],
    alignment: Mapping[str, int] = ALIGNMENT,
    title: str = "Method on toy",
    updates: int = 8,
) -> Path:
    """A finished run with two batches; `curve` holds (update, training seconds, success)."""
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text(f"[run]\nseed = {seed}\n")
    lines = [evaluation(0, 0.0, 80.0, "teacher")]
    lines += [evaluation(*point) for point in curve]
    lines += [batch(index, alignment=alignment) for index in range(2)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    before, after = (curve[0][2], curve[-1][2]) if curve else (None, None)
    (folder / "summary.json").write_text(
        json.dumps(summary(seconds, before=before, after=after, title=title, updates=updates))
    )
    return folder
