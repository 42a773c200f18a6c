"""The report: every table from runs written by hand, and a page in which every number says where it came from."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from actfirst.errors import ConfigError
from actfirst.lab.aggregate import Mark
from actfirst.lab.report.ablation_table import ablation_table
from actfirst.lab.report.cells import Number, Table, Words, number
from actfirst.lab.report.differences import differences_table
from actfirst.lab.report.figures import draw_stability, draw_utilisation, smoothed
from actfirst.lab.report.main_table import main_table
from actfirst.lab.report.page import write_report
from actfirst.lab.report.run_tables import (
    alignment_table,
    curve_table,
    early_window,
    latency_table,
    reach_table,
    throughput_table,
)
from actfirst.lab.report.sources import Sources, find_sources
from tests.support.report_sources import (
    write_evaluation,
    write_method_run,
    write_quality,
    write_simulation,
)
from tests.support.run_folders import update


def make_lab(out: Path) -> Path:
    """Vanilla solves 2 of 4 in 100 and 120 s; ActFirst 3 and 4 in 50 and 40 s; without guidance 1 and 3 in 80 s."""
    for seed, seconds, solved in ((42, 100.0, 2), (43, 120.0, 2)):
        write_method_run(out / f"vanilla-seed{seed}", "vanilla", seed, seconds=seconds, solved=solved)
    for seed, seconds, solved in ((42, 50.0, 3), (43, 40.0, 4)):
        write_method_run(out / f"actfirst-seed{seed}", "actfirst", seed, seconds=seconds, solved=solved)
    for seed, solved in ((42, 1), (43, 3)):
        write_method_run(out / f"no-id-seed{seed}", "actfirst-no-id", seed, seconds=80.0, solved=solved)
    write_evaluation(out / "eval" / "student.json", "pocket:student", 0, who="student")
    write_evaluation(out / "eval" / "teacher.json", "pocket:teacher", 4, who="teacher")
    return out


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    return make_lab(tmp_path / "lab")


@pytest.fixture
def sources(lab: Path) -> Sources:
    return find_sources([lab])


def texts(table: Table | None) -> list[list[str]]:
    assert table is not None
    return [list(table.heads), *([cell.text for cell in row] for row in table.rows)]


def column(table: Table | None, head: str) -> list[str]:
    heads, *rows = texts(table)
    return [row[heads.index(head)] for row in rows]


class TestMainTable:
    def test_rows_are_zero_shot_teacher_and_methods(self, sources: Sources) -> None:
        assert column(main_table(sources.settings[0], 1), "Method") == [
            "Zero-shot student (pocket:student)",
            "Teacher (pocket:teacher)",
            "Vanilla OPD",
            "ActFirst-OPD",
            "ActFirst w/o inverse dynamics",
        ]

    def test_success_by_kind_split_and_over_all(self, sources: Sources) -> None:
        table = main_table(sources.settings[0], 1)
        # ActFirst: 3 and 4 of 4 tasks; "look" are the first two, seen the first and the third
        assert column(table, "All SR") == [
            "0.00 ± 0.00",
            "100.00 ± 0.00",
            "50.00 ± 0.00",
            "87.50 ± 17.68",
            "50.00 ± 35.36",
        ]
        assert column(table, "look") == ["0.00", "100.00", "100.00", "100.00", "75.00"]
        assert column(table, "pick") == ["0.00", "100.00", "0.00", "75.00", "25.00"]
        assert column(table, "seen SR")[2:] == ["50.00", "100.00", "75.00"]
        # rounds: vanilla (3 + 3 + 8 + 8) / 4
        assert column(table, "All Round")[2] == "5.50"

    def test_times_and_speedups_are_paired_by_seed(self, sources: Sources) -> None:
        table = main_table(sources.settings[0], 1)
        assert column(table, "Training time (s)")[2:] == ["110.0 ± 14.1", "45.0 ± 7.1", "80.0 ± 0.0"]
        # 100 / 50 = 2 and 120 / 40 = 3; 100 / 80 and 120 / 80
        assert column(table, "Speedup")[2:] == ["1.00 ± 0.00×", "2.50 ± 0.71×", "1.38 ± 0.18×"]

    def test_marks_are_among_trained_students_and_ties_share_them(self, sources: Sources) -> None:
        table = main_table(sources.settings[0], 1)
        assert table is not None
        at = table.heads.index("All SR")
        found = [cell.mark for row in table.rows if isinstance(cell := row[at], Number)]
        assert found == [Mark.NONE, Mark.NONE, Mark.SECOND, Mark.BEST, Mark.SECOND]
        fastest = table.rows[3][table.heads.index("Training time (s)")]
        assert isinstance(fastest, Number)
        assert fastest.mark is Mark.BEST

    def test_a_score_that_is_no_more_than_success_has_no_column(self, sources: Sources) -> None:
        table = main_table(sources.settings[0], 1)
        assert table is not None
        assert "Score" not in table.heads


class TestOtherTables:
    def test_ablation_with_drops_and_mean_ranks(self, sources: Sources) -> None:
        heads, without, ours = texts(ablation_table(sources.settings))
        assert heads == ["Method", "SR (%)", "Drop", "Training time (s)", "Rank"]
        # 25 and 75 against 75 and 100
        assert without[1:] == ["50.00", "37.50", "80.0", "2.00"]
        assert ours[1:] == ["87.50", "–", "45.0", "1.00"]

    def test_an_ablation_needs_ours(self, lab: Path) -> None:
        assert ablation_table(find_sources([lab / "vanilla-seed42", lab / "no-id-seed42"]).settings) is None

    def test_ablation_uses_only_seeds_that_all_variants_have(self, lab: Path) -> None:
        found = find_sources([lab / "actfirst-seed42", lab / "actfirst-seed43", lab / "no-id-seed43"])
        table = ablation_table(found.settings)
        assert column(table, "SR (%)") == ["75.00", "100.00"]
        assert table is not None
        assert [path.name for path in table.rows[1][1].sources] == ["actfirst-seed43"]  # type: ignore[union-attr]

    def test_time_to_vanillas_final_success(self, sources: Sources) -> None:
        table = reach_table(sources.settings[0], 1)
        # vanilla reaches 50 % at its ends; ActFirst's lines pass it at 2/3 of 50 s and 1/2 of 40 s
        assert column(table, "Seconds") == ["110.0 ± 14.1", "26.7 ± 9.4", "≥ 66.7 ± 18.9"]
        assert column(table, "Sooner by")[1] == "4.50 ± 2.12×"

    def test_success_over_training_and_at_equal_time(self, sources: Sources) -> None:
        heads, vanilla, actfirst, without = texts(curve_table(sources.settings[0], 1))
        # ActFirst ends after 50 and 40 s; vanilla is then at 45 of 100 and of 120 s, on its way from 0 to 50 %
        assert heads == ["Method", "Update 0", "Update 8", "After 45 s"]
        assert vanilla[1:] == ["0.0 ± 0.0", "50.0 ± 0.0", "20.6 ± 2.7"]
        # 45 of 50 s on the way to 75 %, and the end of the run that was over after 40 s
        assert actfirst[1:] == ["0.0 ± 0.0", "87.5 ± 17.7", "83.8 ± 23.0"]
        assert without[3] == "28.1 ± 19.9"

    def test_success_over_training_says_when(self, sources: Sources) -> None:
        table = curve_table(sources.settings[0], 1)
        assert table is not None
        assert table.texts()[0][2] == "50.0 ± 0.0 (110 s)"

    def test_throughput_and_its_parts(self, sources: Sources) -> None:
        heads, vanilla, actfirst, _ = texts(throughput_table(sources.settings[0], 1))
        # vanilla's four transitions in 100 s and 120 s, from the first rollout (at 23 and 28 s) to the last update
        assert vanilla[1:4] == ["4", "84.5", "0.05"]
        assert actfirst[heads.index("Fewer transitions (%)")] == "0.0"
        # ActFirst's windows are 39.5 and 32 s: (77 / 39.5 + 92 / 32) / 2
        assert actfirst[heads.index("Speedup of the window")] == "2.41×"

    def test_the_early_window_shrinks_with_short_runs(self) -> None:
        assert early_window([15202.0, 6796.0]) == 600.0
        assert early_window([90.0, 81.0]) == 20.0

    def test_cumulative_alignment_of_guided_methods(self, sources: Sources) -> None:
        # 3 of 4 first actions, 2 of 4 trajectories, 10 of 20 turns in every batch
        assert texts(alignment_table(sources.settings[0], 1))[1:] == [
            ["ActFirst-OPD", "75.00", "50.00", "50.00"]
        ]

    def test_latency_and_the_share_of_reasoning(self, sources: Sources) -> None:
        rows = texts(latency_table(sources.settings[0], 1))[1:]
        assert rows[0][:3] == ["Vanilla OPD", "8", "1.000"]
        assert rows[0][4] == "80.0"  # 8 of 10 tokens
        assert rows[1][4] == "–"


class TestDifferences:
    def test_every_method_less_vanilla_and_ours_less_the_others(self, sources: Sources) -> None:
        rows = texts(differences_table(sources.settings[0], 1))[1:]
        # ActFirst solves 3 and 4 of 4 where vanilla solves 2: +25 and +50; half-width over seeds 12.706 * 12.5
        assert rows[0] == [
            "ActFirst-OPD less Vanilla OPD",
            "+37.5",
            "-121.3 to +196.3",
            "-9.4 to +84.4",  # games: 0, 0, 100 and 50 points
            "+25.0, +50.0",
            "noise",
        ]
        assert [row[0] for row in rows[1:]] == [
            "ActFirst w/o inverse dynamics less Vanilla OPD",
            "ActFirst-OPD less ActFirst w/o inverse dynamics",
        ]

    def test_a_difference_that_every_seed_and_game_agrees_on_is_shown(self, tmp_path: Path) -> None:
        for seed in (42, 43, 44):
            write_method_run(tmp_path / f"v{seed}", "vanilla", seed, seconds=9.0, solved=0)
            write_method_run(tmp_path / f"a{seed}", "actfirst", seed, seconds=9.0, solved=4)
        (row,) = texts(differences_table(find_sources([tmp_path]).settings[0], 1))[1:]
        assert row[1:] == ["+100.0", "+100.0 to +100.0", "+100.0 to +100.0", "+100.0, +100.0, +100.0", "yes"]

    def test_one_seed_has_no_interval_and_shows_nothing(self, tmp_path: Path) -> None:
        write_method_run(tmp_path / "v", "vanilla", 42, seconds=9.0, solved=0)
        write_method_run(tmp_path / "a", "actfirst", 42, seconds=9.0, solved=4)
        (row,) = texts(differences_table(find_sources([tmp_path]).settings[0], 1))[1:]
        assert (row[2], row[-1]) == ("–", "noise")


class TestUtilisation:
    """Paper, Figures "Rollout latency and quality" (c) and "Rollout efficiency" (c, d)."""

    def test_a_line_for_each_method_with_its_throughput(self, lab: Path, tmp_path: Path) -> None:
        for run in ("vanilla-seed42", "actfirst-seed42"):
            lines = [f'{{"seconds": {second}, "gpus": [90, 70], "parts": {{}}}}\n' for second in range(40)]
            (lab / run / "utilisation.jsonl").write_text("".join(lines))
        figure = draw_utilisation(find_sources([lab]).settings[0], 1, tmp_path)
        assert figure is not None
        assert figure.path.stat().st_size > 5000
        rows = list(csv.DictReader(figure.series.splitlines()))
        assert len(rows) == 2 * 40
        assert {row["busy"] for row in rows} == {"80.0"}
        assert [path.name for path in figure.sources] == ["vanilla-seed42", "actfirst-seed42"]

    def test_runs_of_older_versions_have_none(self, sources: Sources, tmp_path: Path) -> None:
        assert draw_utilisation(sources.settings[0], 1, tmp_path) is None

    def test_samples_are_smoothed_over_those_before(self) -> None:
        assert smoothed([(1.0, 10.0), (2.0, 20.0), (3.0, 30.0)]) == ([1.0, 2.0, 3.0], [10.0, 15.0, 20.0])


class TestSources:
    def test_variants_of_a_method_are_told_apart_by_what_differs(self, lab: Path) -> None:
        more = ["rollout.responses=all"]
        write_method_run(lab / "actfirst-all-seed42", "actfirst", 42, seconds=60.0, solved=3, more=more)
        labels = [group.label for group in find_sources([lab]).settings[0].groups]
        # the variant that shares its settings with the other methods goes by its method's name
        assert labels[1:3] == ["ActFirst-OPD", "ActFirst-OPD (all responses)"]

    def test_a_key_that_an_older_version_did_not_write_has_its_default(self, lab: Path) -> None:
        path = lab / "vanilla-seed43" / "config.toml"
        lines = path.read_text().splitlines()
        older = [line for line in lines if not line.startswith("schedule = ")]
        assert len(older) < len(lines)
        path.write_text("\n".join(older))
        assert len(find_sources([lab]).settings[0].groups[0].runs) == 2

    def test_another_student_is_another_setting(self, lab: Path) -> None:
        more = ["models.student=/models/big"]
        write_method_run(lab / "big", "vanilla", 42, seconds=60.0, solved=3, more=more)
        found = find_sources([lab])
        assert sorted(one.label for one in found.settings) == [
            "pocket: big from pocket:teacher",
            "pocket: pocket:student from pocket:teacher",
        ]

    def test_two_runs_of_one_method_and_seed_are_refused(self, lab: Path) -> None:
        write_method_run(lab / "again", "vanilla", 42, seconds=60.0, solved=3)
        with pytest.raises(ConfigError, match="both Vanilla OPD with seed 42"):
            find_sources([lab])

    def test_a_path_named_twice_counts_once(self, lab: Path) -> None:
        assert len(find_sources([lab, lab / "vanilla-seed42"]).settings[0].groups[0].runs) == 2

    def test_unfinished_runs_are_left_out_and_named(self, lab: Path) -> None:
        (lab / "vanilla-seed43" / "summary.json").unlink()
        found = find_sources([lab])
        assert [path.name for path in found.unfinished] == ["vanilla-seed43"]
        assert len(found.settings[0].groups[0].runs) == 1

    def test_nothing_and_nowhere_are_refused(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="nothing to report on"):
            find_sources([tmp_path])
        with pytest.raises(ConfigError, match="does not exist"):
            find_sources([tmp_path / "moon"])


def test_how_steadily_rewards_teach_is_a_figure_of_runs_that_learn_from_them(tmp_path: Path) -> None:
    folder = write_method_run(
        tmp_path / "gigpo", "gigpo", 42, seconds=10.0, solved=2, more=["rollout.group_size=8"]
    )
    measured = {"sampled_entropy": 0.2, "anchor_kl": 0.01, "response_tokens": 60.0}
    with (folder / "metrics.jsonl").open("a") as metrics:
        metrics.write(json.dumps(update(9, 11.0) | {"clip_fraction": 0.05, "extra": measured}) + "\n")
    (setting,) = find_sources([folder]).settings
    figure = draw_stability(setting, 1, tmp_path)
    assert figure is not None
    assert figure.path.stat().st_size > 0
    (row,) = csv.DictReader(figure.series.splitlines())
    shown = ("update", "success", "entropy", "clip_fraction", "anchor_kl", "response_tokens")
    assert [float(row[name]) for name in shown] == [9, 25.0, 0.2, 0.05, 0.01, 60.0]
    without = write_method_run(tmp_path / "vanilla", "vanilla", 42, seconds=10.0, solved=2)
    assert draw_stability(find_sources([without]).settings[0], 1, tmp_path) is None


class TestCells:
    def test_a_number_without_a_run_cannot_be_made(self) -> None:
        with pytest.raises(ValueError, match="no run that it came from"):
            number(1.0, 2, [])

    def test_nothing_is_a_dash(self) -> None:
        assert number(None, 2, []) == Words("–")

    def test_numbers_carry_their_deviation(self) -> None:
        cell = number(1234.567, 1, [Path("a")], deviation=0.04, unit="×", before="≥ ")
        assert cell.text == "≥ 1,234.6 ± 0.0×"


class _Page(HTMLParser):
    """Collects what a page links to and what it defines."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.pictures: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if values.get("id"):
            self.ids.append(values["id"] or "")
        if tag == "a":
            self.links.append(values.get("href") or "")
        if tag == "img":
            self.pictures.append(values.get("src") or "")


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lab = make_lab(tmp_path_factory.mktemp("report") / "lab")
    write_simulation(lab / "bench" / "rollout-simulated.json")
    write_quality(lab / "bench" / "quality.json")
    return write_report([lab], lab / "report", "A lab")


class TestPage:
    def test_every_link_leads_somewhere(self, page: Path) -> None:
        parsed = _Page()
        parsed.feed(page.read_text())
        assert len(parsed.ids) == len(set(parsed.ids))
        for link in parsed.links:
            assert link[1:] in parsed.ids if link.startswith("#") else (page.parent / link).exists(), link

    def test_every_number_of_a_table_is_a_link_to_its_sources(self, page: Path) -> None:
        cells = re.findall(r"<td>(.*?)</td>", page.read_text())
        measured = [
            cell
            for cell in cells
            if re.search(r"\d\.\d|\d ×|\d %", re.sub(r"<a.*?</a>|<small.*?</small>", "", cell))
        ]
        assert measured == []
        assert sum("#source-" in cell for cell in cells) > 60

    def test_it_is_self_contained(self, page: Path) -> None:
        parsed = _Page()
        parsed.feed(page.read_text())
        assert len(parsed.pictures) == 4
        assert all(picture.startswith("data:image/png;base64,") for picture in parsed.pictures)
        assert "http" not in re.sub(r"data:[^\"]*", "", page.read_text())

    def test_simulated_results_say_so_wherever_they_stand(self, page: Path) -> None:
        text = page.read_text()
        assert "Results marked SIMULATED come from a latency model" in text
        assert text.count("Rollout efficiency (SIMULATED)") >= 2
        assert text.count("SIMULATED, not measured") == 2

    def test_tables_are_files_too_with_their_sources(self, page: Path) -> None:
        files = sorted(path.stem for path in (page.parent / "tables").iterdir())
        assert files == [
            "ablation",
            "alignment-1",
            "curve-1",
            "differences-1",
            "latency-1",
            "main-1",
            "quality-1",
            "reach-1",
            "rollout-1",
            "throughput-1",
        ]
        rows = list(csv.DictReader((page.parent / "tables" / "main-1.csv").open()))
        assert rows[2]["Method"] == "Vanilla OPD"
        assert rows[2]["sources"] == "vanilla-seed42 vanilla-seed43"
        assert len(list((page.parent / "figures").glob("*.png"))) == 4

    def test_all_tables_stand_in_one_markdown_file_with_their_marks(self, page: Path) -> None:
        text = (page.parent / "tables.md").read_text()
        names = {path.stem for path in (page.parent / "tables").glob("*.csv")}
        assert text.count("\n### ") == len(names)
        header, _, first = text.partition("### ")[2].split("\n")[2:5]
        assert header.count("|") == first.count("|") > 3
        assert "| **" in text
        assert "processor: " in text

    def test_the_figures_of_all_runs_are_one_json_file(self, page: Path) -> None:
        (setting,) = json.loads((page.parent / "figures.json").read_text())["settings"]
        vanilla, ours, _ = setting["methods"]
        assert [run["training_seconds"] for run in vanilla["runs"]] == [100.0, 120.0]
        assert ours["runs"][1]["final"]["by_split"] == {"seen": 100.0, "unseen": 100.0}
        assert ours["runs"][1]["speedup"] == 3.0
        assert setting["differences"][0]["per_seed"] == {"42": 25.0, "43": 50.0}

    def test_the_points_of_curves_are_files_too(self, page: Path) -> None:
        curve = list(csv.DictReader((page.parent / "figures" / "performance-1.csv").open()))
        assert [(row["update"], row["training_seconds"], row["success"]) for row in curve[:2]] == [
            ("0", "0.000", "0.000"),
            ("8", "100.000", "50.000"),
        ]
        windows = list(csv.DictReader((page.parent / "figures" / "alignment-1.csv").open()))
        assert {row["run"] for row in windows} == {"actfirst-seed42", "actfirst-seed43"}
        assert {row["first_action"] for row in windows} == {"75.000"}

    def test_quality_marks_are_among_the_strategies_of_a_checkpoint(self, page: Path) -> None:
        rows = list(csv.DictReader((page.parent / "tables" / "quality-1.csv").open()))
        assert [row["Strategy"] for row in rows[:3]] == ["Think-then-act", "Direct action", "Guided action"]
        assert page.read_text().count("<b>10.0</b>") == 4

    def test_it_can_be_written_again(self, page: Path) -> None:
        assert write_report([page.parents[1]], page.parent, "A lab") == page
