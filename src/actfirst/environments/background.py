"""An event loop in a thread, for worlds that are written as coroutines. Environments here are plain calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

from actfirst.errors import EnvironmentFailure

Result = TypeVar("Result")


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="environments", daemon=True).start()
    return loop


def wait_for(work: Coroutine[Any, Any, Result], seconds: float, what: str) -> Result:
    """The result of `work`, which is cancelled after so many seconds: EnvironmentFailure says that `what` hung."""
    future = asyncio.run_coroutine_threadsafe(work, _loop())
    try:
        return future.result(seconds)
    except TimeoutError as error:
        if not future.done():
            future.cancel()
            raise EnvironmentFailure(
                f"{what} did not answer within {seconds:g} s (environment.deadline)"
            ) from error
        raise
