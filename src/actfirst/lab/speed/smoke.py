"""`actfirst bench learner`: tokens per second of the learner on this machine beside what the count predicts.

A random model of a named shape, one micro-batch, forward and backward. The prediction is that of `budget.py` for an
A100; on another device the two only stand beside each other.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from actfirst.config.sections import LearnerSection
from actfirst.lab.speed.budget import A100, Budget, Work, budget, make_samples, qwen3_config
from actfirst.lab.speed.models import write_checkpoint
from actfirst.learning.update import Learner
from actfirst.models.device import compute_device
from actfirst.models.shapes import ModelShape

TINY = ModelShape(1024, 64, 192, 3, 4, 2, 16, tied_embeddings=True)
"""For a machine without a GPU: shows that the command works, and nothing else."""
TINY_WORK = Work(2, 32, 32)


@dataclass(frozen=True, slots=True)
class Pace:
    """Tokens per second of each round, beside the prediction; `peak` is the most memory of the GPU in bytes, or 0."""

    device: str
    counted: Budget
    measured: tuple[float, ...]
    peak: int

    @property
    def predicted(self) -> float:
        return 1 / self.counted.seconds(A100)


def measure(shape: ModelShape, work: Work, rounds: int, scratch: Path) -> Pace:
    """The first round compiles and is not counted."""
    device = compute_device("auto", "device")
    on_gpu = device.startswith("cuda")
    write_checkpoint(scratch, qwen3_config(shape))
    learner = Learner(scratch, LearnerSection(activation_checkpointing=True, token_budget=work.tokens), device)
    samples, found = make_samples(work, shape.vocab_size), []
    for _ in range(rounds + 1):
        begun = time.perf_counter()
        learner.update(samples)
        found.append(work.tokens / (time.perf_counter() - begun))
    peak = torch.cuda.max_memory_allocated() if on_gpu else 0
    counted = budget(shape, "fused" if on_gpu else "plain", recomputed=True, work=work)
    return Pace(device, counted, tuple(found[1:]), peak)
