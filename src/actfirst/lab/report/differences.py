"""The table of paired differences of success, with 95 % intervals."""

from __future__ import annotations

from actfirst.lab.paired import Difference
from actfirst.lab.report.cells import NOTHING, Cell, Number, Table, Words
from actfirst.lab.report.recorded import recorded
from actfirst.lab.report.sources import Setting

HEADS = ("Methods", "Difference", "Over seeds", "Over games", "By seed", "Shown")
NOTE = (
    "Points of SR at the end, paired by training seed. The first interval (95 %) is Student's t over training seeds, "
    "the second is over games. A difference is shown where both leave out zero."
)


def differences_table(setting: Setting, place: int) -> Table | None:
    """Every method less vanilla, and ours less every other."""
    paths = {group.label: group.paths for group in setting.groups}
    rows: list[tuple[Cell, ...]] = []
    for found in recorded(setting).differences:
        sources = (*paths[found.first], *paths[found.second])
        figures = (Number(text, sources) for text in texts_of(found))
        verdict = Words(found.verdict)
        rows.append((Words(f"{found.first} less {found.second}"), *figures, verdict))
    if not rows:
        return None
    return Table(
        slug=f"differences-{place}",
        title=f"Paired differences of success, {setting.label}",
        note=NOTE,
        heads=HEADS,
        rows=tuple(rows),
    )


def texts_of(found: Difference) -> tuple[str, ...]:
    """Its mean, its two intervals and the difference of each seed, as text."""
    by_seed = ", ".join(f"{value:+.1f}" for value in found.per_seed.values())
    intervals = (one.text() if one else NOTHING for one in (found.over_seeds, found.over_games))
    return (f"{found.mean:+.1f}", *intervals, by_seed)
