"""Tables of stored measurements: rollout efficiency and rollout quality."""

from __future__ import annotations

from pathlib import Path

from actfirst.lab.aggregate import marks
from actfirst.lab.quality import TITLES
from actfirst.lab.report.cells import Cell, Table, Words, mark_column, number
from actfirst.lab.results import QualityResult
from actfirst.lab.rollout.result import RolloutResult

_GIVES_WAY = (
    " Optimised: the engine pauses responses for fast actions, and under a cap too small to gain anything ActFirst "
    "gives way to think-then-act."
)


def rollout_table(path: Path, result: RolloutResult, place: int) -> Table:
    """Every timed point beside its idealized estimate and the least time that its cap allows."""
    settings = result.settings
    rows = tuple(
        (
            Words(str(point.full)),
            Words(str(point.cap)),
            Words(str(point.turns)),
            number(point.vanilla_mean, 3, [path]),
            number(point.actfirst_mean, 3, [path]),
            number(point.speedup, 2, [path], deviation=point.deviation, unit="×"),
            number(point.ideal, 2, [path], unit="×"),
            number(point.bound_seconds, 3, [path]),
            number(point.attained, 0, [path], unit=" %"),
            number(point.needed_cap, 1, [path]),
            number(point.most, 2, [path], unit="×"),
            number(point.over_bound, 2, [path], unit="×"),
        )
        for point in result.points
    )
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
        heads=(
            "Full tokens",
            "Cap",
            "Turns",
            "Vanilla (s)",
            "ActFirst (s)",
            "Speedup",
            "Idealized",
            "Least (s)",
            "Attained",
            "Cap needed",
            "At most",
            "Over bound",
        ),
        rows=rows,
    )


def quality_table(path: Path, result: QualityResult, place: int) -> Table:
    """Strategies from each checkpoint; marks among the strategies of one checkpoint."""
    names = list(dict.fromkeys(row.checkpoint for row in result.rows))
    rows: list[tuple[Cell, ...]] = []
    rules: list[int] = []
    for name in names:
        members = [row for row in result.rows if row.checkpoint == name]
        body: list[list[Cell]] = [
            [
                number(row.repeat, 1, [path]),
                number(row.per_100, 2, [path]),
                number(row.turns, 2, [path]),
                number(row.success, 1, [path]),
                number(row.valid, 1, [path]),
            ]
            for row in members
        ]
        repeats = {at: row.repeat for at, row in enumerate(members) if row.repeat is not None}
        mark_column(body, 0, marks(repeats, digits=1, higher_is_better=False))
        mark_column(body, 1, marks({at: row.per_100 for at, row in enumerate(members)}, digits=2))
        turns = {at: row.turns for at, row in enumerate(members)}
        mark_column(body, 2, marks(turns, digits=2, higher_is_better=False))
        if rows:
            rules.append(len(rows))
        rows += [
            (Words(name), Words(TITLES[row.strategy]), *cells) for row, cells in zip(members, body, strict=True)
        ]
    return Table(
        slug=f"quality-{place}",
        title="Rollout quality by acting strategy",
        note=f"{result.rows[0].tasks} training tasks, one trajectory each, the same checkpoint and sampling seeds for "
        "all strategies. Repeat: tasks with at least one unproductive repetition; yield: successful trajectories per "
        "100 transitions.",
        heads=("Checkpoint", "Strategy", "Repeat (%)", "Yield", "Turns", "SR (%)", "Valid actions (%)"),
        rows=tuple(rows),
        rules=tuple(rules),
    )


def said(result: RolloutResult) -> str:
    """What was timed, in a sentence; simulated results never go without the word."""
    if result.simulated:
        return f"SIMULATED, not measured: {result.engine}."
    return f"Measured: {result.model} on the engine {result.engine}."


def simulated_mark(result: RolloutResult) -> str:
    return " (SIMULATED)" if result.simulated else ""
