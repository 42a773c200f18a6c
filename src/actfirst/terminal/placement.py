"""Where the parts of a run would live and what they would take, as lines for `actfirst train --dry-run`."""

from __future__ import annotations

from collections.abc import Iterator

from actfirst.config.config import Config
from actfirst.methods.table import needs_teacher
from actfirst.training.footprint import GPU_BYTES, Footprint, footprints


def placement_lines(config: Config) -> list[str]:
    """The placement, and an estimate of memory for each part whose model is known."""
    return [_placement(config), *_memory(config)]


def _placement(config: Config) -> str:
    settings = config.runtime
    if settings.kind == "local":
        return "placement: everything in one process"
    elsewhere = config.teacher.kind == "server" or not needs_teacher(config)
    counts = [
        (settings.rollout_engines, "rollout engine", settings.engine_gpus),
        (0 if elsewhere else settings.teacher_replicas, "teacher replica", settings.teacher_gpus),
        (settings.learners, "learner rank", settings.learner_gpus),
        (settings.environment_workers, "environment worker", 0.0),
        (settings.rollout_drivers, "rollout driver", 0.0),
    ]
    parts = ", ".join(f"{count} {name}{'s' if count > 1 else ''}" for count, name, _ in counts if count)
    gpus = sum(count * each for count, _, each in counts)
    where = f"{gpus:g} GPUs" if gpus else "no GPU"
    cluster = f"the cluster at {settings.address}" if settings.address else "a cluster started here"
    return f"placement: {parts} on {where}, Ray ({cluster})"


def _memory(config: Config) -> Iterator[str]:
    found = footprints(config)
    if not found:
        yield "memory: unknown, because neither model is there nor one of the named sizes"
        return
    settings = config.runtime
    gpus = {
        "rollout engine": settings.engine_gpus,
        "teacher replica": settings.teacher_gpus,
        "learner rank": settings.learner_gpus,
    }
    yield "memory of each, estimated (docs/scaling.md says how):"
    for footprint in found:
        yield f"  {_line(footprint, gpus[footprint.part])}"


def _line(footprint: Footprint, gpus: float) -> str:
    unit, name = (1e9, "GB") if footprint.total >= 1e9 else (1e6, "MB")
    parts = " + ".join(f"{value / unit:.1f} {what}" for what, value in footprint.bytes_of.items())
    total = f"{footprint.total / unit:6.1f} {name}"
    line = f"{footprint.part:15s} {footprint.model:11s} {total} = {parts} ({footprint.note})"
    if gpus and footprint.total > gpus * GPU_BYTES:
        line += f"; MORE THAN THE {gpus * GPU_BYTES / 1e9:.0f} GB OF ITS GPU"
    return line
