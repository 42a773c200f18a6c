"""The embedded engine: a small continuous-batching engine in plain torch, for one device.

    checkpoint -> weights -> model            what is computed
    kv_cache, prefix_cache                    where keys and values live
    sequence -> scheduler -> runner -> engine which requests go into a step, one step, the thread that steps
    sampling                                  how a token is drawn

It runs Qwen3 and Llama checkpoints. It is made for tiny models on a laptop's CPU, where the overhead of each
operation counts more than its arithmetic, and for in-place weight updates. It is not for large models on
clusters.
"""

from actfirst.engines.embedded.engine import EmbeddedEngine, EmbeddedOptions

__all__ = ["EmbeddedEngine", "EmbeddedOptions"]
