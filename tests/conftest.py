"""What holds for every test: one torch thread, no network, no colour codes in captured text."""

from __future__ import annotations

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


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    """Also after a test that changed it. Tests that do not use torch do not pay for its import."""
    torch = sys.modules.get("torch")
    if torch is not None and torch.get_num_threads() != 1:
        torch.set_num_threads(1)
