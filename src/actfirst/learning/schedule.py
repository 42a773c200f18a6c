"""The learning rate of an update: constant in the paper; by option with a warm-up, and a linear or cosine fall to 0."""

from __future__ import annotations

import math

from actfirst.config.sections import LearnerSection


def rate_of(update: int, settings: LearnerSection) -> float:
    """The rate of update number `update`, the first being 0. The warm-up ends at the full rate, the fall at 0."""
    rate, warm = settings.learning_rate, settings.warmup_updates
    if update < warm:
        return rate * (update + 1) / (warm + 1)
    if settings.schedule == "constant":
        return rate
    done = min(1.0, (update - warm) / max(1, settings.schedule_updates - warm))
    return rate * (1 - done if settings.schedule == "linear" else (1 + math.cos(math.pi * done)) / 2)
