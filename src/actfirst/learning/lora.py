"""Low-rank adapters through peft (the extra `lora`): few parameters are trained, engines get merged weights.

Adapters sit on every projection of every layer. Their first values come from a fixed seed, so that all ranks begin
alike. The paper trains all weights; this is for students whose optimiser states do not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from actfirst.config.sections import LearnerSection
from actfirst.errors import ConfigError

_BASE, _DOWN, _UP = ".base_layer.", ".lora_A.default.", ".lora_B.default."


def add_adapters(model: Any, settings: LearnerSection) -> None:
    """Add a product of rank `adapter_rank` to each projection, scaled by `adapter_alpha` / `adapter_rank`, and freeze
    everything else. It changes nothing until it is trained."""
    try:
        from peft import LoraConfig, inject_adapter_in_model
    except ImportError as error:
        raise ConfigError("learner.adapter_rank needs peft: pip install 'actfirst[lora]'") from error
    with torch.random.fork_rng():
        torch.manual_seed(0)
        config = LoraConfig(
            r=settings.adapter_rank,
            lora_alpha=settings.adapter_alpha,
            lora_dropout=0.0,
            target_modules=_projections(model),
        )
        inject_adapter_in_model(config, model)


def _projections(model: Any) -> list[str]:
    """The names that the linear modules of the layers have; the head is none of them."""
    head = model.get_output_embeddings()
    linear = (n for n, m in model.named_modules() if isinstance(m, torch.nn.Linear) and m is not head)
    return sorted({name.rsplit(".", 1)[-1] for name in linear})


def merged(
    parameters: Mapping[str, Tensor], settings: LearnerSection, whole: Callable[[Tensor], Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """All weights under their Hugging Face names, adapters multiplied out. `whole` puts a tensor together."""
    scale = _scale(settings)
    for name, parameter in parameters.items():
        if _DOWN in name or _UP in name:
            continue
        if name.endswith(f"{_BASE}weight"):
            down, up = (whole(parameters[name.replace(_BASE, part)]) for part in (_DOWN, _UP))
            yield name.replace(_BASE, "."), whole(parameter) + scale * (up @ down)
        else:  # a projection's bias has no adapter of its own
            yield name.replace(_BASE, "."), whole(parameter)


def scaled(
    adapters: Mapping[str, Tensor], settings: LearnerSection, whole: Callable[[Tensor], Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """The adapters alone, named as PEFT stores them, with their scale in the second factor."""
    for name, parameter in adapters.items():
        tensor = whole(parameter)
        yield name.replace(".default.", "."), tensor * _scale(settings) if _UP in name else tensor


def _scale(settings: LearnerSection) -> float:
    return settings.adapter_alpha / settings.adapter_rank if settings.adapter_rank else 0.0
