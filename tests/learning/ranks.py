"""Runs a function in several processes that form one process group over gloo."""

from __future__ import annotations

import multiprocessing
import pickle
import socket
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

# Forked from a process that has imported everything: a rank starts in well under a second.
_PROCESSES = multiprocessing.get_context("forkserver")
_PROCESSES.set_forkserver_preload(["tests.learning.ranks_preload"])


def on_ranks(ranks: int, work: Callable[..., Any], *arguments: Any) -> list[Any]:
    """`work(*arguments)` on every rank; what each returned. A rank that raises fails the caller."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    pipes = [_PROCESSES.Pipe(duplex=False) for _ in range(ranks)]
    started = [
        _PROCESSES.Process(target=_rank, args=(rank, ranks, port, pipes[rank][1], work, arguments))
        for rank in range(ranks)
    ]
    for process in started:
        process.start()
    for _, theirs in pipes:
        theirs.close()
    try:
        answers = [pickle.loads(ours.recv_bytes()) for ours, _ in pipes]
    except EOFError:
        raise AssertionError("a rank died; its traceback is above") from None
    finally:
        for process in started:
            process.join(20)
            process.kill()
    return answers


def _rank(rank: int, ranks: int, port: int, pipe: Connection, work: Callable[..., Any], arguments: Any) -> None:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=ranks)
    pipe.send_bytes(pickle.dumps(work(*arguments)))  # by value: shared memory would end with the process
    dist.destroy_process_group()
