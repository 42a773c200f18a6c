"""Checkpoints of a learner of several ranks: every rank writes its part of the optimiser, the first one the rest.

The folder is that of `checkpoint.py`, with training/shards/ (see `shards.py`) for the optimiser. The
model is always a whole Hugging Face folder in float32, so weights are not stored twice. Any number of ranks resumes
from it, also one process. All ranks need to see the same folder.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

import torch.distributed as dist
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

from actfirst.errors import CheckpointError
from actfirst.learning.checkpoint import (
    SHARDS,
    Checkpoint,
    Taken,
    copied,
    unfinished_name,
    write_all_but_optimizer,
    writing,
)
from actfirst.learning.rng import capture_rng
from actfirst.learning.sharded import ShardedLearner
from actfirst.learning.shards import Part, fill, write_shard
from actfirst.learning.update import LearnerState
from actfirst.records import TurnSample
from actfirst.runs.manifest import step_name


@dataclass(frozen=True, slots=True)
class TakenShard:
    """What one rank will write: its rows of the optimiser's tensors, and on the first rank all else (`taken`). Ranks
    speak in a group of their own, so that they can write while they compute the next update."""

    taken: Taken
    rows: Mapping[str, Part]
    group: dist.ProcessGroup


def take_sharded(
    learner: ShardedLearner, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], *, copy: bool
) -> TakenShard:
    """As `checkpoint.take`, called on every rank."""
    # Whole weights are copies already, in the memory of the first rank.
    state = LearnerState(learner.version, learner.export(), {}, learner.adapters())
    average = learner.export(averaged=True) if learner.settings.average else {}
    # What is not divided is the same on all ranks: the first one writes it.
    rows = {
        name: _part(value)
        for name, value in learner.moments().items()
        if learner.rank == 0 or (learner.writes and isinstance(value, DTensor))
    }
    if copy:
        state = replace(state, adapters=copied(state.adapters))
        kept = copied({name: part.rows for name, part in rows.items()})
        rows = {name: replace(part, rows=kept[name]) for name, part in rows.items()}
    alpha = learner.settings.adapter_alpha
    taken = Taken(learner.source, state, average, samples, trainer_state, capture_rng(), alpha)
    return TakenShard(taken, rows, learner.beside)


def write_sharded(folder: Path, shard: TakenShard, *, export: bool = False) -> Path:
    """As `checkpoint.write`, called on every rank. A failure on one rank is raised on all."""
    state = shard.taken.state
    target = folder / unfinished_name(state.version)
    under_way = ExitStack()

    def begin() -> None:
        parts = 5 if shard.taken.average else 3  # both models, two moments, and the average among them
        needed = parts * sum(tensor.numel() * tensor.element_size() for tensor in state.weights.values())
        under_way.enter_context(writing(folder, state.version, needed))
        write_all_but_optimizer(target, shard.taken, export=export)

    try:
        _on_first(begin, shard.group)
        _write_rows(shard, target / "training" / SHARDS)
    except BaseException as error:
        under_way.__exit__(type(error), error, error.__traceback__)  # removes what was written
        raise
    _on_first(under_way.close, shard.group)  # makes it whole
    return folder / step_name(state.version)


def restore_sharded(learner: ShardedLearner, checkpoint: Checkpoint) -> None:
    """Continue from a checkpoint of any number of ranks; each rank keeps its part and reads little more."""
    shards = checkpoint.path / "training" / SHARDS
    if not shards.is_dir():
        learner.restore(checkpoint.learner)
        return
    learner.restore(checkpoint.without_optimizer)
    moments = learner.empty_moments()
    fill(shards, {name: _part(tensor) for name, tensor in moments.items()})
    learner.set_moments(moments)


def _write_rows(shard: TakenShard, folder: Path) -> None:
    rank, failure = dist.get_rank(), ""
    try:
        if shard.rows:
            write_shard(folder, rank, shard.rows)
    except (OSError, SafetensorError) as error:
        failure = f"rank {rank}: {error}"
    everywhere = [failure] * dist.get_world_size()
    dist.all_gather_object(everywhere, failure, shard.group)
    if causes := "; ".join(filter(None, everywhere)):
        raise CheckpointError(f"{folder} could not be written ({causes}). Earlier checkpoints are intact")


def _part(tensor: Tensor) -> Part:
    """This rank's rows of a tensor of the learner."""
    if not isinstance(tensor, DTensor):
        return Part.whole(tensor)
    assert tensor.placements[-1] == Shard(0), "FSDP divides weights along their first dimension"
    _, start = compute_local_shape_and_global_offset(tensor.shape, tensor.device_mesh, tensor.placements)
    return Part(tensor.to_local(), start[0], tuple(tensor.shape))


def _on_first(work: Callable[[], object], group: dist.ProcessGroup) -> None:
    """Run `work` on the first rank; what it raises is raised on all, as what it is or as a CheckpointError."""
    failure: Exception | None = None
    if dist.get_rank() == 0:
        try:
            work()
        except Exception as error:
            failure = error
    told: list[object] = [None if failure is None else str(failure)]
    dist.broadcast_object_list(told, src=0, group=group)
    if failure is not None:
        raise failure
    if told[0] is not None:
        raise CheckpointError(str(told[0]))
