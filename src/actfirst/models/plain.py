"""A plain forward pass of transformers: what engines and measurements are checked against."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def open_plain(folder: Path) -> PreTrainedModel:
    """The model of a checkpoint folder in float32."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # it would run through what a command shows
    return AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32).eval()


def plain_logprobs(model: PreTrainedModel, prompt: Sequence[int], tokens: Sequence[int]) -> list[float]:
    """Log-probs (temperature 1) of `tokens` after `prompt`, one per token."""
    import torch

    with torch.inference_mode():
        logits = model(torch.tensor([[*prompt, *tokens]])).logits[0, len(prompt) - 1 : -1]
    chosen = torch.log_softmax(logits.float(), -1).gather(-1, torch.tensor([*tokens])[:, None])
    return [float(value) for value in chosen[:, 0]]
