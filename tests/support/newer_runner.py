"""vLLM's newer model runner on a CPU: a plugin for pytest (`-p tests.support.newer_runner`).

Its kernels are written for Triton, whose interpreter computes them here, operation by operation in numpy: slow, and
the same code as on a GPU. vLLM takes Triton for missing where it has no backend for CPUs, so it is shown one that is
never used. All of this must be set before anything imports Triton.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

os.environ |= {"TRITON_INTERPRET": "1", "VLLM_USE_V2_MODEL_RUNNER": "1"}

from triton.backends import backends

_DRIVER: Any = SimpleNamespace(is_active=lambda: True)
backends["cpu"] = SimpleNamespace(driver=_DRIVER)  # type: ignore[assignment]
