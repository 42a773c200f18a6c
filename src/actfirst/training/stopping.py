"""Ending a run early without losing what it has learned: on SIGTERM, on Ctrl-C, and before a deadline.

A stop is a request. Waiting for rollouts, evaluations and proofs ends at once; an update under way is finished, because
its samples have left the buffer. Then the loop writes a checkpoint. While a run is still being opened there is nothing
to finish, and the request cancels the opening.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from actfirst.errors import RunStopped
from actfirst.rollout.together import cancelled

Result = TypeVar("Result")
TERMINATED, INTERRUPTED = 143, 130
_LOOK = 0.5


class Stop:
    """A request that may come at any time. Belongs to the event loop in which it is made."""

    def __init__(self) -> None:
        self._asked = asyncio.Event()
        self._reason, self._code = "", 0
        self._opening = asyncio.current_task()

    def request(self, reason: str, code: int) -> None:
        """Ask for the end; the first reason counts."""
        if not self._asked.is_set():
            self._reason, self._code = reason, code
            self._asked.set()
            if self._opening is not None:
                self._opening.cancel()

    def opened(self) -> None:
        """From here on somebody looks at `check` and `unless`."""
        self._opening = None

    def check(self) -> None:
        """Raise RunStopped if the end was asked for."""
        if self._asked.is_set():
            raise RunStopped(self._reason, self._code)

    async def unless(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of some work. If the end is asked for before it is there, the work is cancelled and RunStopped
        is raised."""
        task, asked = asyncio.ensure_future(work), asyncio.ensure_future(self._asked.wait())
        try:
            await asyncio.wait((task, asked), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise RunStopped(self._reason, self._code)
            return task.result()
        finally:
            await cancelled([asked] if task.done() else [asked, task])

    async def before(self, seconds_left: Callable[[], float]) -> None:
        """Ask for the end when no seconds are left."""
        # The time that ending takes grows with what was measured, so it is looked at again and again.
        while (left := seconds_left()) > 0:  # noqa: ASYNC110
            await asyncio.sleep(min(left, _LOOK))
        self.request("stopped before its deadline", TERMINATED)

    def on_signals(self) -> None:
        """Let SIGTERM and the first Ctrl-C ask for the end; a second Ctrl-C ends the process at once. Call it again
        after a library that takes signals for itself."""
        if threading.current_thread() is not threading.main_thread():
            return  # only the main thread may; whoever runs in another one stops in another way
        loop = asyncio.get_running_loop()

        def interrupt() -> None:
            loop.remove_signal_handler(signal.SIGINT)
            self.request("stopped", INTERRUPTED)

        loop.add_signal_handler(signal.SIGTERM, self.request, "stopped", TERMINATED)
        loop.add_signal_handler(signal.SIGINT, interrupt)
