"""Samples for learner tests, and the plain computations that the learner is compared with."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForCausalLM

from actfirst.config.sections import LearnerSection
from actfirst.learning.loss import LossConfig
from actfirst.records import TurnSample


def learning(**settings: Any) -> LearnerSection:
    """Settings of a learner that computes exactly, on one thread, but for what is named."""
    return LearnerSection(**{"precision": "float32", "threads": 1, **settings})


VOCABULARY = 380  # a little below that of the tiny checkpoints: the ids above it are in no sample


def make_samples(count: int, *, seed: int = 0, weight: float = 1.0) -> list[TurnSample]:
    """Random samples of uneven lengths; some share a prefix, some hold inserted tokens (mask 0)."""
    rng = random.Random(seed)
    opening = tuple(rng.randrange(VOCABULARY) for _ in range(9))
    samples = []
    for number in range(count):
        prompt = opening[: rng.choice((0, 4, 9))] + tuple(
            rng.randrange(VOCABULARY) for _ in range(rng.randint(1, 30))
        )
        length = rng.randint(2, 12)
        mask = tuple(0 if 0 < index < length - 1 and rng.random() < 0.2 else 1 for index in range(length))
        samples.append(
            TurnSample(
                id=f"sample-{number}",
                episode_id=f"episode-{number // 3}",
                task_id="task",
                turn=number % 3 + 1,
                prompt_ids=prompt,
                token_ids=tuple(rng.randrange(VOCABULARY) for _ in range(length)),
                mask=mask,
                behaviour_logprobs=tuple(-rng.uniform(0.1, 6.0) if kept else 0.0 for kept in mask),
                advantages=tuple(rng.uniform(-6.0, 6.0) if kept else 0.0 for kept in mask),
                version=0,
                weight=weight,
            )
        )
    return samples


def make_episodes(tasks: int, turns: int, *, seed: int = 0) -> list[TurnSample]:
    """Samples whose prompts grow: each turn's prompt begins with most of the one before. Two responses to every second
    prompt begin alike, and one sample occurs twice."""
    rng = random.Random(seed)
    pool = iter(make_samples(2 * tasks * turns + 1, seed=seed + 1))

    def tokens(count: int) -> tuple[int, ...]:
        return tuple(rng.randrange(VOCABULARY) for _ in range(count))

    samples = []
    for task in range(tasks):
        history = tokens(8)
        for turn in range(1, turns + 1):
            history += tokens(rng.randint(3, 7))
            made = replace(
                next(pool),
                episode_id=f"episode-{task}",
                turn=turn,
                prompt_ids=history + tokens(rng.randint(1, 9)),
            )
            samples.append(made)
            if turn % 2:
                other = next(pool)
                begin, ids = len(other.token_ids) // 2, made.token_ids * 6
                samples.append(
                    replace(other, prompt_ids=made.prompt_ids, token_ids=ids[:begin] + other.token_ids[begin:])
                )
    return [*samples, replace(samples[0], id=next(pool).id)]


def plain_model(folder: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")


def plain_logprobs(model: Any, sample: TurnSample) -> torch.Tensor:
    """Log-probs of all response tokens from the full logits of one sequence."""
    ids = torch.tensor([sample.prompt_ids + sample.token_ids])
    logits = model(input_ids=ids).logits[0, len(sample.prompt_ids) - 1 : -1]
    return torch.log_softmax(logits.double(), dim=-1)[range(len(sample.token_ids)), list(sample.token_ids)]


def paper_token_loss(logp: float, behaviour: float, advantage: float) -> float:
    """Equations opd-ratio and opd-dual-clip, one number at a time."""
    ratio = math.exp(min(max(logp - behaviour, -20.0), 20.0))
    clip = -min(ratio * advantage, min(max(ratio, 1 - 0.2), 1 + 0.2) * advantage)
    return min(clip, -3.0 * advantage) if advantage < 0 else clip


def paper_loss(samples: Sequence[TurnSample], logprobs: Sequence[Sequence[float]]) -> float:
    """Equation opd-surrogate, with the weight of each response."""
    total = 0.0
    for sample, logp in zip(samples, logprobs):
        streams = zip(sample.mask, logp, sample.behaviour_logprobs, sample.advantages)
        losses = [paper_token_loss(*values) for kept, *values in streams if kept]
        total += sample.weight * sum(losses) / (sum(sample.mask) + LossConfig().eps)
    return total / len(samples)
