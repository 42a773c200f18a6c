"""An engine behind HTTP: a frozen model on one or more OpenAI-compatible servers that return prompt log-probs.

    wire      what is asked of a server, and how its answers are read
    replicas  which server gets the next request
    client    deadlines, retries, bounds
    engine    the contract of engines/base.py over these

It scores, and generates where the server returns token ids (vLLM does). The weights are the server's own, so they
cannot be changed: this is for a teacher.
"""

from actfirst.engines.remote.engine import RemoteEngine, Served

__all__ = ["RemoteEngine", "Served"]
