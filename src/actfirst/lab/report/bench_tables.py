"""Tables of stored measurements: rollout efficiency and rollout quality."""

from __future__ import annotations

from pathlib import Path

from actfirst.lab.report.cells import Cell, Table, Words, mark_column, number
from actfirst.lab.results import QualityResult
from actfirst.lab.rollout.result import RolloutResult
from actfirst.methods.strategies import Strategy

_GIVES_WAY = (
    " Optimised: the engine pauses responses for fast actions, and under a cap too small to gain anything ActFirst "
    "gives way to think-then-act."
)
# heading, field, digits, unit
_ROLLOUT_COLUMNS = (
    ("Vanilla (s)", "vanilla_mean", 3, ""),
    ("ActFirst (s)", "actfirst_mean", 3, ""),
    ("Speedup", "speedup", 2, "×"),
    ("Idealized", "ideal", 2, "×"),
    ("Least (s)", "bound_seconds", 3, ""),
    ("Attained", "attained", 0, " %"),
    ("Cap needed", "needed_cap", 1, ""),
    ("At most", "most", 2, "×"),
    ("Over bound", "over_bound", 2, "×"),
)
# heading, field, digits, whether higher is better (None: not marked)
_QUALITY_COLUMNS = (
    ("Repeat (%)", "repeat", 1, False),
    ("Yield", "per_100", 2, True),
    ("Turns", "turns", 2, False),
    ("SR (%)", "success", 1, None),
    ("Valid actions (%)", "valid", 1, None),
)


def rollout_table(stored: tuple[Path, RolloutResult], place: int) -> Table:
    """Every timed point beside its idealized estimate and the least time that its cap allows."""
    path, result = stored
    settings = result.settings
    rows = []
    for point in result.points:
        cells: list[Cell] = [Words(str(value)) for value in (point.full, point.cap, point.turns)]
        for _, name, digits, unit in _ROLLOUT_COLUMNS:
            deviation = point.deviation if name == "speedup" else None
            aside = "(gave way)" if name == "over_bound" and not point.acted_first else ""
            cells.append(
                number(getattr(point, name), digits, [path], deviation=deviation, unit=unit, aside=aside)
            )
        rows.append(tuple(cells))
    order = "fast actions first" if settings.fast_first else "in order of arrival"
    return Table(
        slug=f"rollout-{place}",
        title=f"Rollout efficiency{simulated_mark(result)}",
        note=f"{said(result)} {settings.contexts} contexts of {result.prompt_tokens:.0f} tokens on average in batches "
        f"of {settings.tasks}, fast actions of {settings.fast} tokens, {settings.repeats} paired repeats, requests "
        f"admitted {order}. Least: no ActFirst batch can be faster with these single-request latencies and this cap; "
        "attained: least over measured. A cap must exceed the cap needed for any gain. At most: the speedup if the "
        "time were that of the dependencies alone or of the work alone, whichever is longer, as timed on this engine; "
        f"over bound: the time taken over that.{_GIVES_WAY if settings.optimised else ''}",
        heads=("Full tokens", "Cap", "Turns", *(column[0] for column in _ROLLOUT_COLUMNS)),
        rows=tuple(rows),
    )


def quality_table(stored: tuple[Path, QualityResult], place: int) -> Table:
    """Strategies from each checkpoint; marks among the strategies of one checkpoint."""
    path, result = stored
    rows: list[list[Cell]] = []
    rules: list[int] = []
    for name in dict.fromkeys(row.checkpoint for row in result.rows):
        members = [row for row in result.rows if row.checkpoint == name]
        body: list[list[Cell]] = [[Words(name), Words(Strategy(row.strategy).label)] for row in members]
        for at, (_, field, digits, higher) in enumerate(_QUALITY_COLUMNS, start=2):
            values = [getattr(row, field) for row in members]
            for cells, value in zip(body, values, strict=True):
                cells.append(number(value, digits, [path]))
            if higher is not None:
                mark_column(body, at, values, digits, higher=higher)
        if rows:
            rules.append(len(rows))
        rows += body
    return Table(
        slug=f"quality-{place}",
        title="Rollout quality by acting strategy",
        note=f"{result.rows[0].tasks} training tasks, one trajectory each, the same checkpoint and sampling seeds for "
        "all strategies. Repeat: tasks with at least one unproductive repetition; yield: successful trajectories per "
        "100 transitions.",
        heads=("Checkpoint", "Strategy", *(column[0] for column in _QUALITY_COLUMNS)),
        rows=tuple(map(tuple, rows)),
        rules=tuple(rules),
    )


def said(result: RolloutResult) -> str:
    """What was timed, in a sentence; simulated results never go without the word."""
    if result.simulated:
        return f"SIMULATED, not measured: {result.engine}."
    return f"Measured: {result.model} on the engine {result.engine}."


def simulated_mark(result: RolloutResult) -> str:
    return " (SIMULATED)" if result.simulated else ""
