"""What vLLM's own processes write to the error stream: passed on as ever, and the end of it kept.

vLLM says of a process that failed only that it did ("see root cause above"). Above is the error stream of that
process, which nobody sees where the engine is an actor of a cluster. Here it is read on its way.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

_KEPT = 64 * 1024  # bytes
_STDERR = 2
# As "(EngineCore pid=7) ValueError: what it says", with or without the name of the process before it.
_RAISED = re.compile(
    r"^(?:\([^()]*\) )*([A-Za-z_][\w.]*(?:Error|Exception|Interrupt|Exit)): *(.*)$", re.MULTILINE
)
_TRACEBACK = "Traceback (most recent call last):"


class Teed:
    """The end of what processes that start inside `started` write to their error stream."""

    def __init__(self) -> None:
        self._kept = b""

    def text(self) -> str:
        return self._kept.decode(errors="replace")

    @contextmanager
    def started(self) -> Iterator[None]:
        """Processes that start in here inherit a pipe. It is read until the last of them ends."""
        before = os.dup(_STDERR)
        read, write = os.pipe()
        os.dup2(write, _STDERR)
        os.close(write)
        reader = threading.Thread(target=self._pass_on, args=(read, before), name="vllm-stderr", daemon=True)
        reader.start()
        try:
            yield
        except BaseException:
            os.dup2(before, _STDERR)
            reader.join(10)  # what the processes wrote last, if they have all ended
            raise
        os.dup2(before, _STDERR)

    def _pass_on(self, read: int, write: int) -> None:
        while part := os.read(read, 65536):
            self._kept = (self._kept + part)[-_KEPT:]
            with suppress(OSError):  # nobody may be there to read it
                os.write(write, part)
        os.close(read)
        os.close(write)


def root_cause(text: str) -> str:
    """The first exception of the first traceback in a text, and that traceback; empty if there is none.

    What a process fails of comes first; that others then fail too, and what vLLM makes of it, comes after.
    """
    begin = text.find(_TRACEBACK)
    if begin < 0:
        return ""
    begin = text.rfind("\n", 0, begin) + 1
    raised = _RAISED.search(text, begin)
    if raised is None:
        return ""
    return f"{raised[1]}: {raised[2]}\nThe traceback of its process:\n{text[begin : raised.end()]}"
