"""What a verification has found so far: one line per game in a file, so that a stopped one goes on where it was."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from actfirst.environments.comparing import Verdict
from actfirst.errors import ConfigError
from actfirst.runs.files import append_whole, cut, json_line, read_json_lines, whole_size


class VerifyLog:
    """Appends reports to a file, if there is one. Games that it already holds are not played again.

    What other engines found is no part of this verification, so a log of other `versions` is refused. One that says
    nothing of versions goes on, and `undated` is true: nobody knows which engines its games were played with.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, object], versions: Mapping[str, str]) -> None:
        self._path = path
        self._lines: dict[str, Mapping[str, object]] = {}
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
        newest = {str(line["game"]): line for line in lines}
        self._lines = {game: line for game, line in newest.items() if not line["error"]}

    @property
    def done(self) -> set[str]:
        """The games that were compared."""
        return {game for game, line in self._lines.items() if not line["error"]}

    def add(self, line: Mapping[str, object]) -> None:
        self._lines[str(line["game"])] = line
        if self._path is not None:
            append_whole(self._path, json_line(line))

    def verdict(self) -> Verdict:
        """Over all games, those of earlier runs included. Seconds are of steps alone."""
        lines = list(self._lines.values())
        steps = sum(int(str(line["steps"])) for line in lines)
        different, failed = (sum(bool(line[key]) for line in lines) for key in ("differences", "error"))
        native, textworld = (
            1e3 * sum(float(str(line[f"{engine}_seconds"])) for line in lines) / max(1, steps)
            for engine in ("native", "textworld")
        )
        return Verdict(
            equal=not different and not failed,
            summary=f"{len(lines)} games, {steps} steps: {different} games differ, {failed} could not be compared",
            details={
                "equal": not different and not failed,
                "games": len(lines),
                "steps": steps,
                "games_with_differences": different,
                "games_not_compared": failed,
                "native_ms_per_step": native,
                "textworld_ms_per_step": textworld,
                "findings": [dict(line) for line in lines if line["differences"] or line["error"]],
            },
        )
