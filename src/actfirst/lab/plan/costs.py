"""What each piece of a run takes: stated for A100s, or read from the folder of a run that was made.

Stated figures are no measurements. Those of engines are the ones with which the simulated engine gives the speedups
that the paper reports for one A100 and Qwen3-1.7B, taken to other sizes by bytes and FLOPs. Those of the learner are
the count of `bench budget`. How fast weights travel is assumed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from actfirst.config.config import Config
from actfirst.config.engine_sections import EngineSection, TeacherSection
from actfirst.errors import ConfigError, RunFolderError
from actfirst.lab.plan.parts import EngineKind
from actfirst.lab.rollout.simulated import LatencyModel
from actfirst.models.shapes import NAMED, ModelShape, shape_of
from actfirst.records import EngineStats
from actfirst.runs.run import Run

REQUEST_SECONDS = 0.0004
"""Of the driver for each request, with few under way for each engine; `actfirst bench driver` measures it."""
PREPARE_SECONDS = 0.00067
"""Of whoever plays for what belongs to a request: its prompt, its tokens, the step of the environment, records."""
RELAYED_SECONDS = 0.00016
"""Of the driver for each request of a rollout driver that it passes on; `actfirst bench turns` measures both."""
_LINK = 20e9  # bytes a second at which weights reach engines: assumed
_RELOAD = 0.1  # seconds of vLLM's reload beside the copy: assumed
_HOST = 0.65e9  # bytes a second of the way through host memory: from 10 to 15 s at 4B
_ROW = 0.02  # how exactly the counters of a batch say what its engine's time was spent on
_ANCHOR = NAMED["Qwen3-1.7B"]


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds. `token`: of a rank for each token of its sequences; `update`: more for each update. `transfer`: while
    engines go on. `request`: of the driver for each request to an engine; `prepare`: of whoever plays, for what belongs
    to it; `relayed`: of the driver beside that, where rollout drivers play. `environment`: of a step;
    `environment_calls`: such a step is a remote call. `checkpoint`: how long the loop waits for one."""

    engine: EngineKind
    teacher: EngineKind
    token: float
    update: float
    transfer: float
    request: float = REQUEST_SECONDS
    prepare: float = PREPARE_SECONDS
    relayed: float = RELAYED_SECONDS
    environment: float = 0.0
    environment_calls: bool = False
    checkpoint: float = 0.0


def stated(config: Config, *, direct: bool = True) -> Costs:
    """On A100s. `direct`: vLLM's workers receive weights beside their steps, and copy them; else a file in main memory
    takes them there, while engines stand still."""
    from actfirst.lab.speed.budget import A100, budget

    student, teacher = _shape(config.models.student), _shape(config.models.teacher)
    size, shards, settings = 2 * student.parameters, config.runtime.learner_shards, config.learner
    copied = _RELOAD + 2 * size / (A100.bandwidth * A100.bandwidth_share)
    counted = budget(student, "fused", recomputed=settings.activation_checkpointing)
    stepped = 28 * student.parameters / shards / (A100.bandwidth * A100.bandwidth_share)
    return Costs(
        engine=_kind(config.engine, latency_of(student), install=copied if direct else size / _HOST),
        teacher=_kind(config.teacher, latency_of(teacher)),
        token=counted.seconds(A100),
        update=stepped,
        transfer=size / _LINK,
        environment_calls=config.runtime.environment_workers > 0,
        checkpoint=16 * student.parameters / shards / _LINK,  # copied to main memory; written beside the loop
    )


def latency_of(shape: ModelShape) -> LatencyModel:
    """Of an engine of one A100: a step reads all weights, a sequence its keys, a prompt token costs its FLOPs."""
    from actfirst.lab.speed.budget import A100

    known = LatencyModel()
    read = 2 / (A100.bandwidth * A100.bandwidth_share)
    return LatencyModel(
        step=known.step + read * (shape.parameters - _ANCHOR.parameters),
        sequence=known.sequence * shape.kv_values_per_token / _ANCHOR.kv_values_per_token,
        prefill=known.prefill * shape.parameters / _ANCHOR.parameters,
        max_prefill=known.max_prefill,
    )


def measured(config: Config, run: Run) -> Costs:
    """As a run has shown; its engines and ranks may have been of another number."""
    batches, updates = run.batches, run.updates
    if len(batches) < 2 or len(updates) < 2:
        raise RunFolderError(f"{run.folder} has fewer than two batches or updates: let it go on a little")
    ranks = int(run.config.get("runtime", {}).get("learners", 1))
    samples = [
        response.prompt_tokens + response.tokens
        for episode in run.episodes()
        for turn in episode.turns
        if (response := turn.response) is not None
    ]
    first, last = updates[0], updates[-1]
    spent = {name: last.stages[name] - first.stages.get(name, 0.0) for name in last.stages}
    count = last.update - first.update
    trained = sum(line.samples for line in updates[1:])
    checkpoints = last.update // config.checkpoint.every - first.update // config.checkpoint.every
    return Costs(
        engine=_kind(config.engine, fitted(line.student_engine for line in batches)),
        teacher=_kind(config.teacher, fitted(line.teacher_engine for line in batches)),
        token=spent["update"] / (trained * fmean(samples) / ranks),
        update=0.0,
        transfer=spent.get("sync", 0.0) / count,
        environment_calls=config.runtime.environment_workers > 0,
        checkpoint=spent.get("checkpoint", 0.0) / checkpoints if checkpoints else 0.0,
    )


def fitted(stats: Iterable[EngineStats | None]) -> LatencyModel:
    """Seconds of a step, of a generated token and of a prompt token, as batches took them.

    Batches are much alike: a few of them tell what all three cost together, and hardly what each does. What they do
    not tell apart stays in the proportion of the stated figures.
    """
    lines = [one for one in stats if one is not None]
    found = np.array([[o.steps, o.generated_tokens, o.prefilled_tokens] for o in lines], dtype=float)
    busy = np.array([one.busy_seconds for one in lines])
    step, sequence, prefill = _near_stated(np.diff(found, axis=0), np.diff(busy))
    given = lines[-1].prefilled_tokens + lines[-1].cached_tokens
    computed = lines[-1].prefilled_tokens / given if given else 1.0
    return replace(LatencyModel(), step=step, sequence=sequence, prefill=prefill * computed)


def _near_stated(known: np.ndarray, wanted: np.ndarray) -> Sequence[float]:
    """Least squares by the share that each coefficient differs from the stated one, of which it may be a multiple; none
    is negative. A row counts as exact to `_ROW`, a stated proportion to a factor of two."""
    model = LatencyModel()
    usual = np.array([model.step, model.sequence, model.prefill])
    there = wanted > 0
    known, wanted = known[there], wanted[there]
    if not len(wanted):
        return [0.0, 0.0, 0.0]
    usual *= wanted.sum() / (known @ usual).sum()
    free = known.any(axis=0)
    while True:
        start = np.where(free, usual, 0.0)
        rows = known * start / (_ROW * wanted)[:, None]
        off = (wanted - known @ start) / (_ROW * wanted)
        size = len(usual)
        more, *_ = np.linalg.lstsq(np.vstack([rows, np.eye(size)]), np.append(off, np.zeros(size)), rcond=None)
        if (more >= -1).all():
            return [float(one) for one in start * (1 + more)]
        free &= more >= -1


def _kind(settings: EngineSection | TeacherSection, latency: LatencyModel, install: float = 0.0) -> EngineKind:
    student = settings if isinstance(settings, EngineSection) else EngineSection()
    return EngineKind(
        replace(latency, max_prefill=settings.max_prefill_tokens),
        settings.max_concurrency,
        drains=student.swap == "drain",
        install=install,
        fast_first=student.priority,
    )


def _shape(model: str) -> ModelShape:
    found = shape_of(model)
    if found is None:
        raise ConfigError(f"the size of {model or 'the teacher'!r} is not known here; name a run with --like")
    return found[1]
