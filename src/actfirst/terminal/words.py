"""Numbers as people read them, and small drawings made of characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actfirst.runs.lines import LedgerCounts

UNKNOWN = "-"
_BARS = "▁▂▃▄▅▆▇█"
MEANINGS = {
    "success": "of evaluations: tasks that the student solves alone, reasoning before each action",
    "rollouts": "tasks solved while data is collected; methods with references are guided, so it is high early",
    "aligned": "how often a guided rollout did what the reference did: first action, whole task, share of turns",
    "reverse KL": "how far the student's tokens are from what the teacher would say; learning makes it fall",
    "tokens/s": "fast: actions that advance tasks; full: reasoning that is learned from; scored: by the teacher",
}
"""What the figures of a run mean."""


def clock(seconds: float) -> str:
    """Seconds as m:ss or h:mm:ss."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


def percent(value: float | None, digits: int = 1) -> str:
    """A value that is in percent already."""
    return UNKNOWN if value is None else f"{value:.{digits}f} %"


def figure(value: float | None) -> str:
    """A measured number with three significant digits."""
    return UNKNOWN if value is None else f"{value:.3g}"


def rate(value: float) -> str:
    """Tokens per second."""
    return f"{value:,.0f}"


def success_in_words(before: float | None, after: float | None, teacher: float | None) -> str:
    """Where the student stood, where it stands, and what that is of the teacher."""
    text = f"{percent(before)} before -> {percent(after)} after"
    if after is not None and teacher:
        text += f", {100.0 * after / teacher:.0f} % of the teacher's {percent(teacher)}"
    return text


def ledger_in_words(ledger: LedgerCounts) -> str:
    """The balance of full responses."""
    reasons = {reason: count for reason, count in ledger.discarded.items() if count}
    why = f" ({', '.join(f'{reason} {count:,}' for reason, count in reasons.items())})" if reasons else ""
    tokens = ""
    if ledger.trained_tokens:
        tokens = (
            f"; {ledger.generated_tokens / ledger.trained_tokens:.2f} tokens generated per token trained on"
        )
    return (
        f"{ledger.generated:,} generated = {ledger.trained:,} trained "
        f"+ {sum(reasons.values()):,} discarded{why} + {ledger.buffered:,} buffered{tokens}"
    )


def shares_in_words(seconds: Mapping[str, float]) -> str:
    """Stages by their share of the whole, the largest first; what is below half a percent is left out."""
    whole = sum(seconds.values())
    if whole <= 0:
        return UNKNOWN
    parts = sorted(seconds.items(), key=lambda part: -part[1])
    shown = [(name, spent) for name, spent in parts if spent >= 0.005 * whole]
    return ", ".join(f"{name} {clock(spent)} ({100.0 * spent / whole:.0f} %)" for name, spent in shown)


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """The latest values as a row of bars between their smallest and their largest."""
    latest = values[-width:]
    if not latest:
        return ""
    low, high = min(latest), max(latest)
    if high <= low:
        return _BARS[0] * len(latest)
    return "".join(_BARS[round((value - low) / (high - low) * (len(_BARS) - 1))] for value in latest)
