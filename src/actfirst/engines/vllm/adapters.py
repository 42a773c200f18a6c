"""Adapters alone for vLLM: it keeps the weights of the checkpoint, and an update replaces one small adapter in place.

From the start every request names this adapter, which begins as zeros: so vLLM says when it opens whether it can take
the adapters of this model, and requests under way go on with new ones (`engine.swap = "in_flight"`).
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from actfirst.errors import EngineError
from actfirst.models.adapters import write_adapter

if TYPE_CHECKING:
    from vllm.lora.request import LoRARequest

Shapes = Mapping[str, tuple[int, ...]]
_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # for which vLLM reserves memory
_NAME, _NUMBER = "student", 1


def expected_adapters(model: torch.nn.Module, rank: int) -> dict[str, tuple[int, ...]]:
    """The adapters of all projections of a model, as the learner names them."""
    head = model.get_output_embeddings()  # type: ignore[operator]
    return {
        name: shape
        for module_name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear) and module is not head
        for name, shape in (
            (f"{module_name}.lora_A.weight", (rank, module.in_features)),
            (f"{module_name}.lora_B.weight", (module.out_features, rank)),
        )
    }


def engine_options(adapters: Shapes) -> dict[str, Any]:
    """How vLLM is opened for them."""
    if not adapters:
        return {}
    rank = next(shape[0] for name, shape in adapters.items() if name.endswith("lora_A.weight"))
    reserved = next(size for size in _RANKS if size >= rank)
    return {"enable_lora": True, "max_loras": 1, "max_cpu_loras": 1, "max_lora_rank": reserved}


def zeros(adapters: Shapes) -> dict[str, torch.Tensor]:
    return {name: torch.zeros(shape) for name, shape in adapters.items()}


def request(path: str = _NAME, *, replace: bool = False) -> LoRARequest:
    """What a request says. The path is read only when the adapter is replaced."""
    from vllm.lora.request import LoRARequest

    return LoRARequest(_NAME, _NUMBER, path, load_inplace=replace)


def replace_adapters(
    engine: Any, folder: Path, weights: Mapping[str, torch.Tensor], place: Path | None
) -> None:
    """Put `weights` (scaled already) in the place of those that vLLM has, by a PEFT folder in `place`."""
    plain = {name: tensor.detach().cpu() for name, tensor in weights.items()}
    rank = next(len(tensor) for name, tensor in plain.items() if name.endswith("lora_A.weight"))
    with tempfile.TemporaryDirectory(dir=place) as written:
        write_adapter(Path(written), str(folder), plain, float(rank))
        if not engine.add_lora(request(written, replace=True)):
            raise EngineError('vLLM did not take the adapters; set learner.adapter_sync = "merged"')
