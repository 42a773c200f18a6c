"""On which device a part of a run computes."""

from __future__ import annotations

import torch

from actfirst.errors import ConfigError


def compute_device(asked: str, key: str) -> str:
    """The device that `auto`, `cpu` or `cuda` means in this process; `key` is where it was asked."""
    there = torch.cuda.is_available()
    if asked == "cuda" and not there:
        raise ConfigError(
            f'{key} = "cuda": torch finds no GPU here; set it to "auto" or "cpu", or run `actfirst doctor`'
        )
    return "cuda" if there and asked != "cpu" else "cpu"
