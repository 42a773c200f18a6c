"""What vLLM makes of the recipes on an A100: python -m tests.support.fake_a100 prints it as JSON.

vLLM asks its platform for everything that it wants to know of a GPU. Here that answers as an A100 would, and the
kernels that the platform's module wants to load are an empty module. So vLLM resolves its whole configuration, and
computes nothing. This changes vLLM for good: it is run in a process of its own.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType, SimpleNamespace
from typing import Any

os.environ |= {"VLLM_LOGGING_LEVEL": "ERROR", "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1"}


class _Kernels(ModuleType):
    """Has every function, and none that can be called."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return None


def pretend() -> None:
    """From here on vLLM sees eight A100s."""
    for name in ("vllm._C_stable_libtorch", "vllm.vllm_flash_attn"):
        sys.modules[name] = _Kernels(name)
    from triton.backends import backends

    driver: Any = SimpleNamespace(is_active=lambda: True)  # as Triton has one on such a machine
    backends["cpu"] = SimpleNamespace(driver=driver)  # type: ignore[assignment]
    import vllm.platforms
    from vllm.platforms import cuda
    from vllm.platforms.interface import DeviceCapability

    answers = {
        "get_device_capability": DeviceCapability(8, 0),
        "get_device_name": "NVIDIA A100-SXM4-80GB",
        "get_device_total_memory": 80 * 2**30,
        "is_fully_connected": True,
        "device_count": 8,
        "num_compute_units": 108,
        "get_cuda_runtime_major": 13,
        "is_pin_memory_available": True,
    }

    def always(answer: Any) -> Any:
        return classmethod(lambda cls, *arguments, **named: answer)

    a100 = type("A100", (cuda.CudaPlatformBase,), {name: always(answer) for name, answer in answers.items()})
    vllm.platforms._current_platform = a100()
    from vllm.model_executor.models import registry

    # Storing what it finds of a model would import all layers, and with them kernels that are not here.
    registry._LazyRegisteredModel._save_modelinfo_to_cache = lambda *_: None


def recipes() -> Iterator[str]:
    """Those of the paper that train, by name."""
    from actfirst.config.recipe_files import recipe_names

    return (name for name in recipe_names() if name.startswith("paper/"))


def resolved(folder: Path, settings: Any) -> dict[str, object]:
    """What decides how fast and how vLLM computes, of its whole configuration."""
    from actfirst.engines.vllm.core import engine_args

    config = engine_args(folder, settings, own_process=True).create_engine_config()
    scheduler, compilation = config.scheduler_config, config.compilation_config
    return {
        "newer model runner": config.use_v2_model_runner,
        "asynchronous scheduling": scheduler.async_scheduling,
        "chunked prefill": scheduler.enable_chunked_prefill,
        "scheduling policy": scheduler.policy,
        "tokens of a step": scheduler.max_num_batched_tokens,
        "sequences": scheduler.max_num_seqs,
        "longest sequence": config.model_config.max_model_len,
        "dtype": str(config.model_config.dtype),
        "log-probs": config.model_config.logprobs_mode,
        "prefix caching": config.cache_config.enable_prefix_caching,
        "memory": config.cache_config.gpu_memory_utilization,
        "compilation": compilation.mode.name,
        "CUDA graphs": compilation.cudagraph_mode.name,
        "largest graph": compilation.max_cudagraph_capture_size,
        "tensor parallel": config.parallel_config.tensor_parallel_size,
        "executor": str(config.parallel_config.distributed_executor_backend),
        "weight transfer": config.weight_transfer_config.backend,
    }


def main() -> None:
    pretend()
    from actfirst.config.load import resolve
    from actfirst.errors import ConfigError
    from actfirst.lab.speed.budget import qwen3_config
    from actfirst.models.shapes import shape_of

    found: dict[str, object] = {}
    with TemporaryDirectory() as scratch:

        def folder(model: str) -> Path:
            name, shape = shape_of(model) or ("", None)
            assert shape is not None, model
            path = Path(scratch) / name
            path.mkdir(exist_ok=True)
            config = {**qwen3_config(shape), "dtype": "bfloat16"}
            (path / "config.json").write_text(json.dumps(config), encoding="utf-8")
            return path

        for recipe in recipes():
            try:
                config = resolve(recipe, [])
            except ConfigError:  # a base of others, which names no student
                continue
            parts = {
                "student": (config.models.student, config.engine),
                "teacher": (config.models.teacher, config.teacher),
            }
            found[recipe] = {
                part: resolved(folder(model), settings)
                for part, (model, settings) in parts.items()
                if settings.kind == "vllm" and shape_of(model) is not None
            }
    json.dump(found, sys.stdout, indent=1, sort_keys=True)


if __name__ == "__main__":
    main()
