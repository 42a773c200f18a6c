"""Which troubles come, and when: drawn by a seed, so that they can be had again."""

from __future__ import annotations

import random
import signal
from dataclasses import dataclass

from actfirst.lab.torture.power import PowerCut
from actfirst.lab.torture.troubles import (
    ANY,
    WORKER,
    ClockJump,
    Kill,
    LostPart,
    NoSpace,
    Signal,
    SlowDisk,
    Trouble,
)

# How many of a hundred; the loss of parts takes its share from the first where a run has parts.
_SHARES = {
    "kill at a file operation": 44,
    "kill at a random time": 18,
    "power cut": 18,
    "SIGTERM": 6,
    "full disk": 6,
    "slow disk": 4,
    "clock jump": 4,
}
_OF_PARTS = 70
_FILLING = "write fsync replace rename mkdir"
_AGAIN = 0.6
"""How often a run that is resumed is troubled again."""
_AT_MOST = 6


@dataclass(frozen=True)
class Given:
    """What a quiet run is like: how often it touches files, and its seconds."""

    operations: int
    seconds: float


class Draw:
    """Kills go through all file operations of a quiet run in a random order before one comes again."""

    def __init__(self, dice: random.Random, quiet: Given, parts: tuple[tuple[str, str], ...] = ()) -> None:
        self._dice = dice
        self._quiet = quiet
        self._parts = parts
        self._points: list[int] = []
        # On Ray, checkpoints are synced by other processes, which the simulated disk does not see.
        here = WORKER in parts or not parts
        self._shares = {kind: share for kind, share in _SHARES.items() if here or kind != "power cut"}

    def several(self) -> list[Trouble]:
        """Troubles of one run, one for each of its processes until it ends."""
        drawn = [self.one()]
        while len(drawn) < _AT_MOST and self._dice.random() < _AGAIN:
            drawn.append(self.one())
        return drawn

    def one(self) -> Trouble:
        dice, quiet = self._dice, self._quiet
        if self._parts and dice.randrange(100) < _OF_PARTS:
            name, kind = dice.choice(self._parts)
            return LostPart(name, kind, dice.randint(4, 16), dice.randint(1, 12))
        count, seconds = dice.randint(1, quiet.operations), dice.uniform(0.0, quiet.seconds)
        match dice.choices(list(self._shares), list(self._shares.values()))[0]:
            case "kill at a file operation":
                return Kill(ANY, self._point())
            case "kill at a random time" as kind:
                return Signal(signal.SIGKILL, seconds, kind)
            case "SIGTERM" as kind:
                return Signal(signal.SIGTERM, seconds, kind)
            case "full disk":
                return NoSpace(_FILLING, 1 + int(dice.random() ** 2 * quiet.operations))
            case "slow disk":
                return SlowDisk(dice.uniform(0.001, 0.03))
            case "clock jump":
                return ClockJump(count, dice.choice((-1, 1)) * 10 ** dice.uniform(0, 8))
            case _:
                return PowerCut(count, dice.randrange(2**31))

    def _point(self) -> int:
        if not self._points:
            self._points = self._dice.sample(range(1, self._quiet.operations + 1), self._quiet.operations)
        return self._points.pop()
