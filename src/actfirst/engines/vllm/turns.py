"""A lock that is granted in the order of asking.

vLLM keeps the batch under way in global variables, so engines of one process must step one after the other. With
an ordinary lock the engine that has just stepped would nearly always win it again, and starve the other.
"""

from __future__ import annotations

import threading
from types import TracebackType


class Turns:
    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._asked = 0
        self._served = 0

    def __enter__(self) -> None:
        with self._changed:
            mine = self._asked
            self._asked += 1
            self._changed.wait_for(lambda: self._served == mine)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._served += 1
            self._changed.notify_all()
