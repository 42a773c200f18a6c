"""The newer model runner of vLLM, which runs on GPUs by default, passes the engine's tests too.

On a CPU its kernels are interpreted, which takes minutes, so one architecture stands for all. There vLLM never
schedules asynchronously.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here", exc_type=ImportError)
pytest.importorskip("triton")

ROOT = Path(__file__).parents[2]
# Without top-p and top-k: Triton's interpreter fails in vLLM's kernel ("'int' object has no attribute 'to'").
CHOSEN = "qwen3-1.0-1.0-0] or (scor and qwen3) or prefixes_are_cached or full_length or (themselves and same)"


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_newer_model_runner_passes_the_engines_suite() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.newer_runner", "-m", "slow"]
    done = subprocess.run(
        [*command, "tests/engines/test_vllm.py", "-k", CHOSEN],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    assert " passed" in done.stdout
