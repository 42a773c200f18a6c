"""Low-rank adapters through peft (the extra `lora`): few parameters are trained, engines get merged weights.

Adapters sit on every projection of every layer. Their first values come from a fixed seed, so that all ranks begin
alike. The paper trains all weights; this is for students whose optimiser states do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from actfirst.errors import ConfigError

_PROJECTIONS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
_BASE, _DOWN, _UP = ".base_layer.", ".lora_A.default.", ".lora_B.default."


def add_adapters(model: Any, rank: int, alpha: float) -> None:
    """Put adapters into the model and freeze everything else. They change nothing until they are trained.

    A product of rank `rank` is added to each projection, scaled by `alpha` / `rank`.
    """
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise ConfigError("learner.adapter_rank needs peft: pip install 'actfirst[lora]'") from error
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LoraConfig(r=rank, lora_alpha=alpha, lora_dropout=0.0, target_modules=list(_PROJECTIONS))
        inject_adapter_in_model(config, model)


def merged(model: Any, scale: float, whole: Callable[[Tensor], Tensor]) -> Iterator[tuple[str, Tensor]]:
    """All weights under their Hugging Face names, adapters multiplied out. `whole` puts a tensor together."""
    parameters: dict[str, Tensor] = dict(model.named_parameters())
    for name, parameter in parameters.items():
        if _DOWN in name or _UP in name:
            continue
        if _BASE in name:
            down, up = (whole(parameters[name.replace(_BASE, part)]) for part in (_DOWN, _UP))
            yield name.replace(_BASE, "."), whole(parameter) + scale * (up @ down)
        else:
            yield name, whole(parameter)
