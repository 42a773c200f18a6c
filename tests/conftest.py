"""What holds for every test: one torch thread, no network, no colour codes in captured text, no plug-ins of others."""

from __future__ import annotations

import importlib.metadata
import os
import sys

import pytest

# Read by libraries when they are imported, here and in the processes that tests start.
os.environ.update(
    OMP_NUM_THREADS="1",
    TOKENIZERS_PARALLELISM="false",
    HF_HUB_OFFLINE="1",
    NO_COLOR="1",
)

_entry_points = importlib.metadata.entry_points
_INSTALLED = frozenset(point for point in _entry_points() if point.group.startswith("actfirst."))


def _without_installed(**chosen: str) -> importlib.metadata.EntryPoints:
    """What a test installs is found; what somebody has installed here for himself is not, whatever it is."""
    found = _entry_points(**chosen)
    return importlib.metadata.EntryPoints(point for point in found if point not in _INSTALLED)


# In place before any module of the package takes the function from there.
importlib.metadata.entry_points = _without_installed


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    """Also after a test that changed it. Tests that do not use torch do not pay for its import."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)
