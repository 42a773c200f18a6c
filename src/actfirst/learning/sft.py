"""Supervised fine-tuning as the learner sees it: examples as samples, the learning rate of a step, the order of data.

Plain next-token cross-entropy, averaged over the response tokens of a batch; prompt tokens count only where
`prompt_weight` says so. `Learner.fit` takes the samples. Every epoch is a fresh permutation that depends on the seed
alone, so a run that continues at any step sees what it would have seen. Not here: where examples come from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from actfirst.records import TurnSample


@dataclass(frozen=True, slots=True)
class Example:
    """One training pair. Any sequence of ids will do; an `array` keeps large sets small. `name` says where it is
    from."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]
    name: str = ""

    @property
    def length(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)


class Schedule(Protocol):
    """How the learning rate goes: it warms up, then stays or falls by a cosine to `final_rate` of itself."""

    @property
    def steps(self) -> int: ...

    @property
    def learning_rate(self) -> float: ...

    @property
    def warmup(self) -> int: ...

    @property
    def schedule(self) -> Literal["cosine", "constant"]: ...

    @property
    def final_rate(self) -> float: ...


def rate_at(step: int, plan: Schedule) -> float:
    """The learning rate of update `step`, counted from 0."""
    if step < plan.warmup:
        return plan.learning_rate * (step + 1) / plan.warmup
    if plan.schedule == "constant":
        return plan.learning_rate
    done = (step - plan.warmup) / max(1, plan.steps - plan.warmup)
    fall = 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
    return plan.learning_rate * (plan.final_rate + (1.0 - plan.final_rate) * fall)


def batch_at(
    step: int, examples: Sequence[Example], batch_size: int, seed: int, *, together: bool = False
) -> list[Example]:
    """The examples of one update. `together`: neighbours of one name stay neighbours, in their order."""
    first, count = step * batch_size, len(examples)
    chosen: list[Example] = []
    for epoch in range(first // count, (first + batch_size - 1) // count + 1):
        order = _permuted(examples, np.random.default_rng((seed, epoch)), together)
        begin = first - epoch * count
        chosen += [examples[place] for place in order[max(0, begin) : max(0, begin + batch_size)]]
    return chosen


def _permuted(examples: Sequence[Example], rng: np.random.Generator, together: bool) -> NDArray[np.int64]:
    if not together:
        return rng.permutation(len(examples))
    changes = [place for place in range(1, len(examples)) if examples[place].name != examples[place - 1].name]
    runs = np.split(np.arange(len(examples)), changes)
    return np.concatenate([runs[place] for place in rng.permutation(len(runs))])


def as_samples(examples: Sequence[Example], prompt_weight: float = 0.0) -> list[TurnSample]:
    """What `Learner.fit` wants: a token's advantage is its weight, and all weights together count as one.

    With a `prompt_weight`, all of the prompt but its first token belongs to what is learned.
    """
    samples = [_sample(number, example, prompt_weight) for number, example in enumerate(examples)]
    whole = sum(sum(sample.advantages) for sample in samples)
    # The learner divides by the number of responses and by the tokens of each: this takes both back.
    weights = [len(samples) * len(sample.token_ids) / whole for sample in samples]
    return [replace(sample, weight=weight) for sample, weight in zip(samples, weights)]


def digest(examples: Sequence[Example]) -> str:
    """Identifies data, so that no run continues with other data than it began with."""
    found = blake2b(digest_size=12)
    for example in examples:
        found.update(np.asarray(example.prompt_ids, dtype=np.int32).tobytes())
        found.update(b"|" + np.asarray(example.response_ids, dtype=np.int32).tobytes() + b"\n")
    return found.hexdigest()


def _sample(number: int, example: Example, prompt_weight: float) -> TurnSample:
    prompt, response = tuple(example.prompt_ids), tuple(example.response_ids)
    advantages = (1.0,) * len(response)
    if prompt_weight:
        advantages = (prompt_weight,) * (len(prompt) - 1) + advantages
        prompt, response = prompt[:1], prompt[1:] + response
    return TurnSample(
        id=example.name or f"example {number}",
        episode_id="",
        task_id="",
        turn=0,
        prompt_ids=prompt,
        token_ids=response,
        mask=(1,) * len(response),
        behaviour_logprobs=(0.0,) * len(response),
        advantages=advantages,
        version=0,
    )
