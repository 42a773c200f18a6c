"""What runs inside vLLM's workers when weights change: vLLM's own reload, and what that leaves undone on a CPU.

vLLM mixes `WeightInstaller` into its worker class (`worker_extension_cls`), in whichever process the worker lives.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch


class WeightInstaller:
    """Two methods for `collective_rpc`. `model_runner` is the worker's."""

    model_runner: Any

    def install_tensors(self, weights: list[tuple[str, torch.Tensor]]) -> None:
        """For a worker in the caller's process: tensors are handed over as they are."""
        self._install(weights)

    def install_file(self, path: str) -> None:
        """For a worker in another process on the same machine: from a safetensors file."""
        from safetensors import safe_open

        with safe_open(path, framework="pt") as tensors:
            self._install((name, tensors.get_tensor(name)) for name in tensors.keys())  # noqa: SIM118

    def _install(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        self.model_runner.reload_weights(weights_iterator=weights)
        repack_head(self.model_runner.get_model())


def repack_head(model: Any) -> None:
    """On a CPU, pack the output matrix again.

    There vLLM computes with a packed copy of it, made when the model is loaded. With tied embeddings `reload_weights`
    does not renew the copy, and says so in a warning only: every log-prob would be wrong from then on.
    """
    from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm
    from vllm.platforms import current_platform

    if not current_platform.is_cpu():
        return
    if model.config.tie_word_embeddings:
        model.lm_head.weight = model.model.embed_tokens.weight
    dispatch_cpu_unquantized_gemm(model.lm_head, remove_weight=False)
