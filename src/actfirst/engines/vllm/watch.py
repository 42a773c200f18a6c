"""Notices the end of vLLM's own process. vLLM 0.32 only marks itself dead then: whoever waits for it waits for ever."""

from __future__ import annotations

import threading
from concurrent.futures import InvalidStateError
from contextlib import suppress
from multiprocessing import connection
from typing import Any


def watch(client: Any) -> None:
    """Fail what waits for the process behind a `SyncMPClient` when that has ended."""
    ends = client.resources.engine_manager.sentinels()
    threading.Thread(target=_fail_at_the_end, args=(client, ends), name="vllm-watch", daemon=True).start()


def _fail_at_the_end(client: Any, ends: list[Any]) -> None:
    from vllm.v1.engine.exceptions import EngineDeadError

    connection.wait(ends)
    # First of all: calls that come after this are refused, so that none is missed below.
    client.resources.engine_dead = True
    client.outputs_queue.put_nowait(EngineDeadError())
    for future in list(client.utility_results.values()):
        with suppress(InvalidStateError):  # the answer was on its way
            future.set_exception(EngineDeadError())
