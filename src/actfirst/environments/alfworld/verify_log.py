"""What a verification has found so far: one line per game in a file, so that a stopped one goes on where it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from actfirst.errors import ConfigError
from actfirst.runs.files import append_whole, cut, json_line, read_json_lines, whole_size


@dataclass
class Tally:
    """Counts over all games, those of earlier runs included. Seconds are of steps alone."""

    games: int = 0
    steps: int = 0
    different: int = 0
    failed: int = 0
    native_seconds: float = 0.0
    textworld_seconds: float = 0.0
    findings: list[dict[str, object]] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return not self.different and not self.failed

    def add(self, line: Mapping[str, object]) -> None:
        self.games += 1
        self.steps += int(str(line["steps"]))
        self.native_seconds += float(str(line["native_seconds"]))
        self.textworld_seconds += float(str(line["textworld_seconds"]))
        self.different += bool(line["differences"])
        self.failed += bool(line["error"])
        if line["differences"] or line["error"]:
            self.findings.append(dict(line))

    def summary(self) -> str:
        return (
            f"{self.games} games, {self.steps} steps: {self.different} games differ, "
            f"{self.failed} could not be compared"
        )

    def to_json(self) -> dict[str, object]:
        return {
            "equal": self.equal,
            "games": self.games,
            "steps": self.steps,
            "games_with_differences": self.different,
            "games_not_compared": self.failed,
            "native_ms_per_step": 1e3 * self.native_seconds / max(1, self.steps),
            "textworld_ms_per_step": 1e3 * self.textworld_seconds / max(1, self.steps),
            "findings": self.findings,
        }


class VerifyLog:
    """Appends reports to a file, if there is one. Games that it already holds are not played again.

    What other engines found is no part of this verification, so a log of other `versions` is refused. One that says
    nothing of versions goes on, and `undated` is true: nobody knows which engines its games were played with.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, object], versions: Mapping[str, str]) -> None:
        self._path = path
        self.tally = Tally()
        self.done: set[str] = set()
        self.undated = False
        if path is None:
            return
        if path.exists():
            cut(path, whole_size(path))
        head, *lines = list(read_json_lines(path)) or [{}]
        found, given = head.get("settings"), {**settings, **versions}
        self.undated = found == dict(settings)
        if not head:
            append_whole(path, json_line({"settings": given}))
        elif found != given and not self.undated:
            raise ConfigError(
                f"{path} belongs to another verification ({found}, now {given}); "
                "continue with its settings, or name another file"
            )
        # A game that could not be compared is played again, so its newest line counts.
        for line in {str(line["game"]): line for line in lines}.values():
            if not line["error"]:
                self.done.add(str(line["game"]))
                self.tally.add(line)

    def add(self, line: Mapping[str, object]) -> None:
        self.tally.add(line)
        if self._path is not None:
            append_whole(self._path, json_line(line))
