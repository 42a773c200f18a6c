"""The embedded engine: a small continuous-batching engine in plain torch, for one CPU.

    weights -> model                          what is computed
    kv_cache, prefix_cache                    where keys and values live
    sequence -> scheduler -> runner           which requests go into a step, and one step
    sampling                                  how a token is drawn
    versions -> engine                        which weights a request runs on, and all of it behind the contract

It runs Qwen3, Qwen2 and Llama checkpoints. It is made for tiny models on a laptop's CPU, where the overhead of each
operation counts more than its arithmetic, and for in-place weight updates. It is not for large models on
clusters.
"""

from actfirst.engines.embedded.engine import EmbeddedEngine

__all__ = ["EmbeddedEngine"]
