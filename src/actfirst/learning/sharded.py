"""The learner over several ranks, by PyTorch's FSDP2: each rank holds a part of every weight and of the optimiser.

One process per rank calls the same methods with the same samples. A rank computes its share of the micro-batches;
gradients are summed over ranks, so the update is that of one process but for rounding. What an update is stands in
`update.py`; here is only where the tensors lie. The paper's Ulysses sequence parallelism divides sequences instead
of samples; the update is the same.

With `copies` there are several copies of all weights, each divided over as many ranks (HSDP): layers are gathered
within a copy, and only the sums of gradients travel between copies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from actfirst.config.sections import LearnerSection
from actfirst.learning.average import AVERAGE
from actfirst.learning.balance import balanced_steps
from actfirst.learning.forward import LayerCall, general_states, supervised_states
from actfirst.learning.packing import Layout, input_length
from actfirst.learning.pieces import Module, Pieces, Rotation
from actfirst.learning.update import Learner
from actfirst.learning.work import Batch, Work, fetched
from actfirst.records import TurnSample


class ShardedLearner(Learner):
    """As `Learner`, in every process of a group. Call it in the same order on all ranks.

    Whole tensors (`weights`, `state`) reach the first rank's main memory only; the others help and get nothing.
    """

    def __init__(self, folder: Path, settings: LearnerSection, device: str = "cpu", copies: int = 1) -> None:
        """The process group must exist: gloo for CPUs, nccl for GPUs. `copies` divides the number of its ranks."""
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        self.copies = copies
        self.beside = self._group_beside()  # for what goes on beside updates: checkpoints
        super().__init__(folder, settings, device)

    @property
    def writes(self) -> bool:
        """Whether this rank is of the first copy: the others hold the same."""
        return self.rank < self.ranks // self.copies

    def weights(self, *, averaged: bool = False) -> Mapping[str, Tensor]:
        kept = self._on_first(self.for_engines(averaged=averaged))
        return self._with_head(kept)

    def measure(self, samples: Sequence[TurnSample]) -> float:
        try:
            return super().measure(samples)
        finally:
            # Without a backward pass nothing else lets go of the gathered weights, which the next update makes old.
            for unit in self._units:
                unit.reshard()

    def empty_moments(self) -> dict[str, Tensor]:
        """Tensors of the right places and sizes to read a checkpoint of shards into."""
        return {
            f"{moment}.{name}": torch.zeros_like(parameter) if moment != "step" else torch.zeros(())
            for name, parameter in self._parameters.items()
            for moment in ("step", "exp_avg", "exp_avg_sq", *([AVERAGE] if self.settings.average else []))
        }

    def _group_beside(self) -> dist.ProcessGroup:
        group: dist.ProcessGroup = dist.new_group(backend="gloo")
        return group

    def _mesh(self, device: str) -> DeviceMesh:
        """Neighbours share a copy: they are the ones that are on one machine."""
        if self.copies == 1:
            return init_device_mesh(device, (self.ranks,))
        divided = (self.copies, self.ranks // self.copies)
        return init_device_mesh(device, divided, mesh_dim_names=("replicate", "shard"))

    def _place(self) -> None:
        device = torch.device(self.device)
        mesh = self._mesh(device.type)
        self._root: _Root | _GeneralRoot = (
            _GeneralRoot(self._model)
            if self.general
            else _Root(self._model, super()._layer_call(), self.pieces)
        )
        # A foreign layer may hold modules that take no bfloat16 weights beside a float32 stream (Phi's norms).
        half = self.settings.precision == "bfloat16" and not self.general
        self._units = _sharded(self._root, mesh, half=half)
        for buffer in self._model.buffers():
            buffer.data = buffer.data.to(device)

    def _states(self, layout: Layout) -> Tensor:
        states: Tensor = self._root(layout)
        return states

    def _gradient(self, samples: Sequence[TurnSample]) -> Work:
        steps = balanced_steps(samples, self.settings.token_budget, self.ranks)
        batches: list[Batch] = []
        for step in steps:
            # A rank without samples still helps to gather weights: it computes one that counts for nothing.
            stand_in = [replace(min(step[0], key=input_length), weight=0.0)]
            done = self._one_batch(step[self.rank] or stand_in, len(samples))
            batches += [done] if step[self.rank] else []
        work = fetched(batches)
        everywhere: list[Work] = [work] * self.ranks
        dist.all_gather_object(everywhere, work)
        return sum(everywhere, Work())

    def export(self, *, averaged: bool = False) -> dict[str, Tensor]:
        return self._on_first(self.named_weights(averaged=averaged))

    def _on_first(self, tensors: Iterator[tuple[str, Tensor]]) -> dict[str, Tensor]:
        """In the first rank's memory; one at a time: a device does not hold them all."""
        return {name: tensor.cpu() for name, tensor in tensors if self.rank == 0}

    def _whole(self, tensor: Tensor) -> Tensor:
        tensor = tensor.detach()
        return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor

    def _part(self, whole: Tensor, parameter: Tensor) -> Tensor:
        if not isinstance(parameter, DTensor) or whole.shape != parameter.shape:
            return whole.clone()
        # Every rank has the whole tensor, so none needs to be sent one.
        return distribute_tensor(
            whole.to(parameter.device), parameter.device_mesh, parameter.placements, src_data_rank=None
        )


class _Layer(nn.Module):
    """Owns the weights of one decoder layer, so that they are gathered for the call and let go after it."""

    def __init__(self, layer: nn.Module, call: LayerCall) -> None:
        super().__init__()
        self.layer = layer
        self._call = call

    def forward(self, number: int, state: Tensor, rotation_U: Rotation, layout: Layout) -> Tensor:
        return self._call(number, state, rotation_U, layout)


class _Root(nn.Module):
    """The model as FSDP sees it: layers, and the rest. The leaves are those of the transformers model.

    The rest (embedding, final norm, head) stays gathered from the forward to the end of the backward pass: the head
    runs in between, chunk by chunk.
    """

    def __init__(self, model: Module, call: LayerCall, pieces: Pieces) -> None:
        super().__init__()
        self._pieces = pieces
        self._model = (model,)  # in a tuple, so that it does not become a part of this module
        self.embed_tokens = model.model.embed_tokens
        self.norm = model.model.norm
        self.lm_head = model.lm_head
        self.layers = nn.ModuleList(_Layer(layer, call) for layer in model.model.layers)

    def forward(self, layout: Layout) -> Tensor:
        return supervised_states(self._model[0], layout, self._run, self._pieces)

    def _run(self, number: int, state: Tensor, rotation_U: Rotation, layout: Layout) -> Tensor:
        result: Tensor = self.layers[number](number, state, rotation_U, layout)
        return result


class _GeneralRoot(nn.Module):
    """A model that runs by its own forward pass, as FSDP sees it: its layers, and the rest."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model
        count = model.config.get_text_config().num_hidden_layers
        lists = (module for module in model.base_model.modules() if isinstance(module, nn.ModuleList))
        self._layers = tuple(next((one for one in lists if len(one) == count), ()))

    @property
    def layers(self) -> Iterable[nn.Module]:
        return self._layers

    def forward(self, layout: Layout) -> Tensor:
        return general_states(self.model, layout)


def _sharded(root: _Root | _GeneralRoot, mesh: DeviceMesh, *, half: bool) -> list[FSDPModule]:
    """Divide layers and the rest over the ranks; what was divided.

    Float32 shards everywhere. With `half`, layers are gathered in bfloat16, which is what autocast would make of them
    anyway; gradients are summed in float32, and the residual stream stays as it is.
    """
    layers = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if half else None,
        reduce_dtype=torch.float32,
        cast_forward_inputs=False,
    )
    place = partial(fully_shard, mesh=mesh)
    units: list[FSDPModule] = [place(layer, mp_policy=layers) for layer in root.layers]
    units.append(place(root, mp_policy=MixedPrecisionPolicy(cast_forward_inputs=False)))
    for unit in units:
        # The loss is a sum with known factors, not a mean over ranks.
        unit.set_gradient_divide_factor(1.0)
        unit.set_force_sum_reduction_for_comms(True)
    return units
