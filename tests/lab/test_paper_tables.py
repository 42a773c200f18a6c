"""The paper's published tables through our aggregation: its averaged rows, its marks and its speedups come out.

Per-size success and hours are written down here, so that this runs anywhere; where the paper's source lies beside the
repository, they are compared with it, and every bold and underlined number of the main tables is derived again.
"""

from __future__ import annotations

import statistics
from itertools import product
from typing import ClassVar

import pytest

from actfirst.lab.aggregate import Result, ablation, average_ranks, marks
from actfirst.lab.throughput import Window, decompose
from actfirst.runs.evaluations import Statistic
from tests.lab.paper_tex import ABSENT, METHODS, SIZES, SOURCE, Cell, cell, main_rows, table

# Benchmark, method: (success, hours) of the students 0.6B, 1.7B and 4B after 250 updates.
PUBLISHED: dict[str, dict[str, list[tuple[float, float]]]] = {
    "ALFWorld": {
        "Vanilla OPD": [(60.46, 4.18), (67.64, 4.46), (79.93, 4.56)],
        "TCOD-F2B": [(61.68, 2.15), (70.19, 2.32), (74.82, 2.72)],
        "TurnOPD": [(50.73, 2.87), (72.14, 3.21), (81.51, 3.86)],
        "Ours w/o ID": [(44.40, 2.30), (56.93, 2.48), (75.43, 2.59)],
        "ActFirst-OPD (Ours)": [(68.61, 1.93), (77.49, 1.95), (82.60, 1.93)],
    },
    "WebShop": {
        "Vanilla OPD": [(36.67, 2.81), (40.33, 3.10), (42.00, 3.96)],
        "TCOD-F2B": [(36.33, 2.42), (38.33, 2.67), (42.00, 3.51)],
        "TurnOPD": [(36.33, 2.88), (39.67, 2.77), (41.33, 3.52)],
        "Ours w/o ID": [(36.00, 1.40), (38.67, 1.70), (41.67, 2.15)],
        "ActFirst-OPD (Ours)": [(38.00, 1.46), (39.33, 1.72), (42.00, 2.32)],
    },
    "ScienceWorld": {
        "Vanilla OPD": [(10.00, 10.31), (22.89, 10.37), (29.34, 12.40)],
        "TCOD-F2B": [(10.00, 6.30), (22.45, 6.53), (30.22, 8.47)],
        "TurnOPD": [(10.22, 6.31), (20.44, 6.37), (30.00, 7.93)],
        "Ours w/o ID": [(11.11, 2.15), (20.00, 2.56), (27.78, 3.25)],
        "ActFirst-OPD (Ours)": [(12.67, 2.01), (24.00, 2.16), (31.33, 2.63)],
    },
}
OURS, WITHOUT_ID, VANILLA = "ActFirst-OPD (Ours)", "Ours w/o ID", "Vanilla OPD"
# Table "Ablation results averaged": mean success, hours and rank of each row.
ABLATION = {
    "w/o ID": {
        "ALFWorld": (58.92, 2.45, 4.67),
        "WebShop": (38.78, 1.75, 3.17),
        "ScienceWorld": (19.63, 2.65, 3.33),
    },
    "w/o NAP Fallback": {
        "ALFWorld": (75.18, 1.25, 2.33),
        "WebShop": (36.67, 2.09, 4.50),
        "ScienceWorld": (19.85, 2.33, 3.00),
    },
    "Replay 50": {
        "ALFWorld": (68.94, 1.90, 4.33),
        "WebShop": (39.11, 2.18, 2.67),
        "ScienceWorld": (18.89, 2.87, 3.67),
    },
    "Replay 100": {
        "ALFWorld": (75.87, 1.11, 2.00),
        "WebShop": (37.89, 1.66, 3.17),
        "ScienceWorld": (18.45, 1.73, 4.00),
    },
    "ActFirst-OPD": {
        "ALFWorld": (76.23, 1.94, 1.67),
        "WebShop": (39.78, 1.83, 1.50),
        "ScienceWorld": (22.67, 2.27, 1.00),
    },
}
DROPS = {
    "ALFWorld": [17.31, 1.05, 7.29, 0.36],
    "WebShop": [1.00, 3.11, 0.67, 1.89],
    "ScienceWorld": [3.04, 2.82, 3.78, 4.22],
}
BENCHMARKS = tuple(PUBLISHED)


def settings(benchmark: str) -> list[dict[str, Result]]:
    """One mapping per student size."""
    rows = PUBLISHED[benchmark]
    return [{name: Result(*rows[name][size]) for name in rows} for size in range(len(SIZES))]


class TestAveragedRows:
    @pytest.mark.parametrize(
        ("benchmark", "speedup"), [("ALFWorld", 2.3), ("WebShop", 1.8), ("ScienceWorld", 4.9)]
    )
    def test_the_mean_speedups_of_the_abstract(self, benchmark: str, speedup: float) -> None:
        hours = {name: [time for _, time in rows] for name, rows in PUBLISHED[benchmark].items()}
        assert (
            round(
                Statistic.over(
                    [base / ours for base, ours in zip(hours[VANILLA], hours[OURS], strict=True)]
                ).mean,
                1,
            )
            == speedup
        )

    @pytest.mark.parametrize("benchmark", BENCHMARKS)
    def test_mean_success_drop_and_time_of_the_rows_that_the_main_tables_hold(self, benchmark: str) -> None:
        rows = ablation(settings(benchmark), OURS)
        for ours, theirs in ((WITHOUT_ID, "w/o ID"), (OURS, "ActFirst-OPD")):
            success, hours, _ = ABLATION[theirs][benchmark]
            assert round(rows[ours].success, 2) == success
            assert rows[ours].seconds == pytest.approx(hours, abs=0.0101)  # hours are published rounded
        assert round(rows[WITHOUT_ID].drop, 2) == pytest.approx(DROPS[benchmark][0], abs=0.0051)

    @pytest.mark.parametrize("benchmark", BENCHMARKS)
    def test_drops_are_differences_of_the_published_means(self, benchmark: str) -> None:
        means = [ABLATION[name][benchmark][0] for name in ABLATION]
        found = ablation([{name: Result(mean, 0.0) for name, mean in zip(ABLATION, means)}], "ActFirst-OPD")
        assert [round(row.drop, 2) for row in found.values()][:-1] == pytest.approx(DROPS[benchmark])

    @pytest.mark.parametrize("benchmark", BENCHMARKS)
    def test_published_mean_ranks_are_ranks_that_average_over_ties_gives(self, benchmark: str) -> None:
        """Per-size results of three variants are not published. But the published mean ranks must come from some
        orders of five methods per size in which ActFirst and w/o ID stand as the main tables say."""
        ranks = [ABLATION[name][benchmark][2] for name in ABLATION]
        assert sum(ranks) == pytest.approx(15.0, abs=0.026)
        per_size = [self.orders(size[OURS].success - size[WITHOUT_ID].success) for size in settings(benchmark)]
        # Ranks are halves, so a sum over three sizes is known exactly from a mean of two digits.
        wanted = tuple(round(6 * rank) / 2 for rank in ranks)
        first_two = {tuple(a + b for a, b in zip(one, two)) for one, two in product(per_size[0], per_size[1])}
        assert any(tuple(w - c for w, c in zip(wanted, three)) in first_two for three in per_size[2])

    @staticmethod
    def orders(gap: float) -> set[tuple[float, ...]]:
        """All rank vectors of five methods (w/o ID first, ActFirst last) that agree with a known difference."""
        found = set()
        for levels in product(range(5), repeat=5):
            difference = levels[-1] - levels[0]
            if (gap > 0) - (gap < 0) == (difference > 0) - (difference < 0):
                found.add(tuple(average_ranks(dict(enumerate(map(float, levels)))).values()))
        return found

    def test_throughput_and_fewer_transitions_make_the_speedup(self) -> None:
        found = decompose(Window(55525, 15202.0), Window(38616, 6796.0))
        assert round(found.throughput, 2) == 1.56
        assert round(found.fewer, 2) == 30.45
        assert round(found.speedup, 2) == 2.24

    def test_mean_gains_over_vanilla_on_alfworld(self) -> None:
        success = PUBLISHED["ALFWorld"]
        gains = [round(ours[0] - theirs[0], 2) for ours, theirs in zip(success[OURS], success[VANILLA])]
        assert gains == [8.15, 9.85, 2.67]
        assert statistics.fmean(gains) == pytest.approx(6.89)

    def test_the_early_window(self) -> None:
        assert [round(Window(count, 600.0).rate, 2) for count in (1289, 3803)] == [2.15, 6.34]


@pytest.mark.skipif(not SOURCE.is_file(), reason=ABSENT)
class TestSource:
    COLUMNS: ClassVar[dict[str, tuple[int, int]]] = {
        "ALFWorld": (10, 12),
        "WebShop": (1, 3),
        "ScienceWorld": (5, 7),
    }

    def rows(self, benchmark: str) -> dict[tuple[str, str], list[Cell]]:
        label = "tab:main-alfworld" if benchmark == "ALFWorld" else "tab:main-webshop-scienceworld"
        return main_rows(label)

    @pytest.mark.parametrize("benchmark", BENCHMARKS)
    def test_what_is_written_down_here_is_what_the_source_says(self, benchmark: str) -> None:
        success, hours = self.COLUMNS[benchmark]
        rows = self.rows(benchmark)
        for name in METHODS:
            found = [(rows[size, name][success].value, rows[size, name][hours].value) for size in SIZES]
            assert found == PUBLISHED[benchmark][name]

    @pytest.mark.parametrize("benchmark", BENCHMARKS)
    def test_speedups_are_vanillas_hours_over_a_methods(self, benchmark: str) -> None:
        rows, column = self.rows(benchmark), self.COLUMNS[benchmark][1]
        for size, name in product(SIZES, METHODS):
            published = rows[size, name][column].speedup
            derived = rows[size, VANILLA][column].value / rows[size, name][column].value
            assert derived == pytest.approx(published, abs=0.02)  # from rounded hours

    @pytest.mark.parametrize("size", SIZES)
    def test_every_mark_of_the_alfworld_table(self, size: str) -> None:
        # Columns: six task types, then success and rounds of seen, unseen and all, then hours.
        lower = {7, 9, 11, 12}
        self.check(self.rows("ALFWorld"), size, range(13), lower)

    @pytest.mark.parametrize("size", SIZES)
    def test_every_mark_of_the_webshop_and_scienceworld_table(self, size: str) -> None:
        # Score, success, rounds (not marked) and hours of both.
        self.check(self.rows("WebShop"), size, [0, 1, 3, 4, 5, 7], {3, 7})

    def check(
        self, rows: dict[tuple[str, str], list[Cell]], size: str, columns: range | list[int], lower: set[int]
    ) -> None:
        for column in columns:
            cells = {name: rows[size, name][column] for name in METHODS}
            values = {name: one.value for name, one in cells.items()}
            found = marks(values, digits=2, higher_is_better=column not in lower)
            assert {name: mark.value for name, mark in found.items()} == {
                name: one.mark for name, one in cells.items()
            }, f"column {column}"

    def test_marks_of_the_ablation_table(self) -> None:
        rows = [row for row in table("tab:ablation_average_across_scales") if len(row) == 10][-5:]
        cells = [[cell(latex) for latex in row[1:]] for row in rows]
        for column in range(9):
            values = {place: row[column].value for place, row in enumerate(cells)}
            found = marks(values, digits=2, higher_is_better=column % 3 == 0)
            assert [found[place].value for place in values] == [row[column].mark for row in cells]
