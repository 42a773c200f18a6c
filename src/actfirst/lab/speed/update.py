"""`actfirst bench update`: the learner's update step against TRL's trainer, on the same model and batch.

Each trainer is a process of its own, so that its peak memory is its own; the processes take turns step by step, so that
only one computes at a time. The batch makes both minimise the same function: every advantage is 1 and the behaviour
log-probs are the model's own, so the surrogate's gradient is that of the mean negative log-likelihood of the responses,
which are equally long. That both do the same is checked by the norm of the gradient.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from actfirst.errors import ConfigError
from actfirst.lab.speed.models import Size, write_checkpoint
from actfirst.lab.spread import Spread, Told, ratios
from actfirst.reading import parse_json

ANSWER = "answer: "


@dataclass(frozen=True, slots=True)
class Job:
    """What both trainers do: one optimiser step on `samples` sequences of random tokens.

    Prompts have between half of `prompt` and `prompt` tokens, responses exactly `response`. `micro` is how many
    sequences TRL computes at once; the learner gets as many tokens.
    """

    model: str
    vocabulary: int
    samples: int
    prompt: int
    response: int
    micro: int
    precision: str
    threads: int
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Trained:
    """What a trainer reported: seconds of each counted step, and the first gradient norm.

    `memory` is how far the process's peak rose above what it held when it was ready, in bytes.
    """

    seconds: tuple[float, ...]
    cpu: tuple[float, ...]
    tokens: int
    memory: int
    gradient: float

    @property
    def tokens_per_second(self) -> Spread:
        return Spread.of([self.tokens / seconds for seconds in self.seconds])


@dataclass(frozen=True, slots=True)
class Comparison:
    """Both trainers on one job. `speedup` is TRL's seconds by ours, step by step."""

    job: Job
    ours: Trained
    trl: Trained

    @property
    def speedup(self) -> Spread:
        return ratios(self.trl.seconds, self.ours.seconds)

    @property
    def cpu_speedup(self) -> Spread:
        return ratios(self.trl.cpu, self.ours.cpu)

    @property
    def gradient_gap(self) -> float:
        """The relative difference of the first gradient norms."""
        return abs(self.ours.gradient - self.trl.gradient) / self.trl.gradient


class _Child:
    """A trainer in a process: made ready at once, then one step for each line it is sent."""

    def __init__(self, trainer: str, job: Job, python: str) -> None:
        self.trainer = trainer
        command = [python, "-m", "actfirst.lab.speed.update_child", trainer, json.dumps(asdict(job))]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout

    def step(self) -> dict[str, float]:
        with contextlib.suppress(BrokenPipeError):  # its message says why
            self._stdin.write("step\n")
            self._stdin.flush()
        # Lines that libraries print are skipped.
        for line in self._stdout:
            if line.startswith(ANSWER):
                answer: dict[str, float] = parse_json(line.removeprefix(ANSWER))
                return answer
        raise ConfigError(f"the process of {self.trainer} ended early; its message is above")

    def close(self) -> None:
        self._stdin.close()
        self._stdout.close()
        self._process.wait(timeout=60)


def compare(job: Job, size: Size, steps: int, trl_python: str, told: Told) -> Comparison:
    """Write the model if `job.model` is not there yet, and let both trainers take turns."""
    if not (Path(job.model) / "config.json").is_file():
        write_checkpoint(Path(job.model), size.config(job.vocabulary, 2 * (job.prompt + job.response)))
    children = [_Child("actfirst", job, sys.executable), _Child("trl", job, trl_python)]
    answers: dict[str, list[dict[str, float]]] = {child.trainer: [] for child in children}
    try:
        for step in range(steps + 1):
            for place, child in enumerate(children if step % 2 else children[::-1], start=1):
                answers[child.trainer].append(child.step())
                what = f"{child.trainer}, {job.precision}" + ("" if step else " (warms up, not counted)")
                told(step * len(children) + place, (steps + 1) * len(children), what)
    finally:
        for child in children:
            child.close()
    return Comparison(job, *map(_trained, answers.values()))


def _trained(answers: Sequence[dict[str, float]]) -> Trained:
    first, *counted = answers
    seconds, cpu = (tuple(answer[key] for answer in counted) for key in ("seconds", "cpu"))
    return Trained(seconds, cpu, int(first["tokens"]), int(counted[-1]["memory"]), first["gradient"])


def to_json(comparisons: Sequence[Comparison]) -> dict[str, object]:
    def trainer(trained: Trained) -> dict[str, object]:
        return {**asdict(trained), "tokens_per_second": asdict(trained.tokens_per_second)}

    return {
        "comparisons": [
            {
                "job": asdict(found.job),
                "actfirst": trainer(found.ours),
                "trl": trainer(found.trl),
                "speedup": asdict(found.speedup),
                "cpu_speedup": asdict(found.cpu_speedup),
                "gradient_gap": found.gradient_gap,
            }
            for found in comparisons
        ]
    }
