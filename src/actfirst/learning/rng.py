"""The random number generators of the process, as JSON: torch (all devices), Python and numpy.

The learner draws nothing from them; what else runs in the process may.
"""

from __future__ import annotations

import base64
import random
from typing import Any

import numpy as np
import torch


def capture_rng() -> dict[str, Any]:
    """The state of every global generator, as JSON-able values."""
    version, internal, gauss = random.getstate()
    _, keys, position, has_gauss, cached = np.random.get_state(legacy=True)
    return {
        "torch": _text(torch.get_rng_state()),
        "cuda": [_text(state) for state in torch.cuda.get_rng_state_all()] if torch.cuda.is_available() else [],
        "python": [version, list(internal), gauss],
        "numpy": [np.asarray(keys).tolist(), int(position), int(has_gauss), float(cached)],
    }


def restore_rng(state: dict[str, Any]) -> None:
    """Set every generator as it was captured. Generators of devices that are not here are left out."""
    torch.set_rng_state(_tensor(state["torch"]))
    for device, text in zip(range(torch.cuda.device_count()), state["cuda"]):
        torch.cuda.set_rng_state(_tensor(text), device)
    version, internal, gauss = state["python"]
    random.setstate((version, tuple(internal), gauss))
    keys, position, has_gauss, cached = state["numpy"]
    np.random.set_state(("MT19937", np.asarray(keys, dtype=np.uint32), position, has_gauss, cached))


def _text(state: torch.Tensor) -> str:
    return base64.b64encode(state.cpu().numpy().tobytes()).decode("ascii")


def _tensor(text: str) -> torch.Tensor:
    return torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.uint8)
