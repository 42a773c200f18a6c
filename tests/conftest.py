"""What holds for every test: one torch thread, no network, no colour codes in captured text, no plug-ins of others."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from typing import Any

import pytest

# Read by libraries when they are imported, here and in the processes that tests start.
os.environ.update(
    OMP_NUM_THREADS="1",
    TOKENIZERS_PARALLELISM="false",
    HF_HUB_OFFLINE="1",
    NO_COLOR="1",
)

_entry_points = importlib.metadata.entry_points
_INSTALLED = {group: _entry_points(group=group) for group in ("actfirst.environments", "actfirst.methods")}


def _without_installed(**chosen: str) -> Any:
    """What a test installs is found; plug-ins that happen to be installed here are not."""
    found, hidden = _entry_points(**chosen), _INSTALLED.get(chosen.get("group", ""))
    return importlib.metadata.EntryPoints(one for one in found if one not in hidden) if hidden else found


# In place before any module of the package takes the function from there.
importlib.metadata.entry_points = _without_installed


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    """Also after a test that changed it. Tests that do not use torch do not pay for its import."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)
