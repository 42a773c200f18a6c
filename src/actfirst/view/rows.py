"""What the pages know of a line before it is opened: one short row per line, the same fields in the same order.

Lines come from any version of the program, so that every field may be missing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from actfirst.records import Verdict
from actfirst.runs.line_index import Row, Summarise
from actfirst.runs.run_folder import EPISODES, EVALUATED, METRICS, RESPONSES, UTILISATION

_TEXT = 300
_MANY = 100

Line = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A file of a run folder that the viewer shows, and the fields of its rows."""

    file: str
    columns: tuple[str, ...]
    summarise: Summarise


def episode_row(line: Line) -> Row:
    """Counts turn numbers from 1. `diverged` is the turn at which guidance ended, 0 where it did not."""
    task, turns = line["task"], line["turns"]
    diverged, reason = _divergence(line)
    return [
        _short(line["id"]),
        _short(task["id"]),
        _short(task.get("kind", "")),
        _short(task.get("split", "")),
        line.get("batch"),
        _version(turns),
        bool(line.get("success")),
        line.get("score", 0.0),
        len(turns),
        bool(line.get("guided")),
        line.get("reference_length", 0),
        diverged,
        reason,
        _short(line.get("error") or ""),
        line.get("seconds", 0.0),
        [turn["number"] for turn in turns if not turn["valid"]][:_MANY],
        _repeated(turns)[:_MANY],
        line.get("update"),
        line.get("seed"),
        line.get("who"),
    ]


EPISODE_COLUMNS = (
    *("id", "task", "kind", "split", "batch", "version", "success", "score", "turns", "guided", "reference"),
    *("diverged", "reason", "error", "seconds", "invalid", "repeated", "update", "seed", "who"),
)


def response_row(line: Line) -> Row:
    """`kl`: mean of student minus teacher over the generated tokens; `worst`: the largest difference of one token."""
    kept = [
        one - other
        for one, other, counts in zip(line["student"], line["teacher"], line["mask"])
        if counts and one is not None and other is not None
    ]
    mean = math.fsum(kept) / len(kept) if kept else None
    return [
        _short(line["episode"]),
        line["turn"],
        line.get("update"),
        line.get("version"),
        None if mean is None else round(mean, 4),
        round(max(kept), 4) if kept else None,
        len(line["token_texts"]),
    ]


RESPONSE_COLUMNS = ("episode", "turn", "update", "version", "kl", "worst", "tokens")


def metrics_row(line: Line) -> Row:
    """A line of metrics without the names of its samples."""
    return [{key: value for key, value in line.items() if key != "sample_ids"}]


KINDS = {
    "metrics": Kind(METRICS, ("line",), metrics_row),
    "utilisation": Kind(UTILISATION, ("line",), metrics_row),
    "episodes": Kind(EPISODES, EPISODE_COLUMNS, episode_row),
    "evaluation": Kind(EVALUATED, EPISODE_COLUMNS, episode_row),
    "responses": Kind(RESPONSES, RESPONSE_COLUMNS, response_row),
}

EPISODE_KINDS = ("episodes", "evaluation")


def _short(text: object) -> str:
    return str(text)[:_TEXT]


def _version(turns: Sequence[Line]) -> object:
    for turn in turns:
        for answer in (*turn.get("requests", ()), turn.get("response") or {}):
            if "version" in answer:
                return answer["version"]
    return None


def _divergence(line: Line) -> tuple[int, str]:
    turns = line["turns"]
    final = {"observation": line.get("final_observation", ""), "admissible": line.get("final_admissible")}
    for turn, after in zip(turns, [*turns[1:], final]):
        if turn["verdict"] == Verdict.INVALID_PROPOSAL:
            return turn["number"], "proposal not admissible"
        if turn["verdict"] == Verdict.DIVERGED:
            return turn["number"], _difference(turn, after)
    return 0, ""


def _difference(turn: Line, after: Line) -> str:
    """What the reference saw next, against what was seen."""
    expected, actions, found = (
        turn.get("reference_next"),
        turn.get("reference_admissible"),
        after.get("admissible"),
    )
    if expected is None:
        return "reason not stored"
    if str(expected).split() != str(after["observation"]).split():
        return "other observation"
    if actions is None or found is None:
        return "other actions or end"
    return "other actions" if set(actions) != set(found) else "other end"


def _repeated(turns: Sequence[Line]) -> list[int]:
    """Turns that submit an action in a state in which it was submitted before."""
    seen: set[tuple[str, str]] = set()
    found = []
    for turn in turns:
        place = (turn.get("state") or turn["observation"], turn["action"])
        if place in seen:
            found.append(turn["number"])
        seen.add(place)
    return found
