"""`actfirst figures`: the figures of reports from several places, put together and paired anew."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actfirst.errors import ConfigError, RunFolderError
from actfirst.lab.report.join import join, markdown
from actfirst.lab.report.page import write_report
from actfirst.lab.report.recorded import read_figures
from tests.support.report_sources import write_evaluation, write_method_run


class TestJoin:
    """Runs that were made in several places."""

    @staticmethod
    def figures(folder: Path, *runs: tuple[str, int, int]) -> Path:
        """The figures of a report on runs of a method with a seed that solved so many of four games."""
        for method, seed, solved in runs:
            write_method_run(folder / f"{method}-{seed}", method, seed, seconds=9.0 + seed, solved=solved)
        return write_report([folder], folder / "report").parent / "figures.json"

    def test_runs_of_two_places_are_paired_as_those_of_one(self, tmp_path: Path) -> None:
        first = [("vanilla", 42, 1), ("actfirst", 42, 3)]
        second = [("vanilla", 43, 2), ("actfirst", 43, 3), ("vanilla", 44, 0), ("actfirst", 44, 4)]
        joined = join([self.figures(tmp_path / "here", *first), self.figures(tmp_path / "there", *second)])
        together = read_figures(self.figures(tmp_path / "together", *first, *second))
        assert joined.settings == together.settings
        (found,) = joined.settings[0].differences
        assert found.per_seed == {42: 50.0, 43: 25.0, 44: 100.0}
        assert found.games_seeds == (42, 43, 44)

    def test_the_machine_of_a_run_is_the_one_that_evaluated_its_checkpoints(self, tmp_path: Path) -> None:
        (line,) = read_figures(self.figures(tmp_path, ("vanilla", 42, 2))).machines
        assert line.startswith("actfirst ")
        assert "; cores: " in line

    def test_it_says_whose_games_an_older_file_does_not_know(self, tmp_path: Path) -> None:
        older = self.figures(tmp_path / "here", ("vanilla", 42, 1), ("actfirst", 42, 3))
        text = json.loads(older.read_text())
        for method in text["settings"][0]["methods"]:
            for run in method["runs"]:
                del run["final"]["by_game"]
        del text["settings"][0]["game_ids"]
        older.write_text(json.dumps(text))
        newer = self.figures(tmp_path / "there", ("vanilla", 43, 2), ("actfirst", 43, 3))
        joined = join([older, newer])
        (found,) = joined.settings[0].differences
        assert (found.per_seed, found.games_seeds) == ({42: 50.0, 43: 25.0}, (43,))
        shown = markdown(joined)
        assert "| ActFirst-OPD | 42, 43 | 75.0, 75.0 | 75.0 ± 0.0 |" in shown
        assert "Games of ActFirst-OPD less Vanilla OPD: of seeds 43 alone." in shown

    def test_how_much_sooner_vanillas_end_is_reached(self, tmp_path: Path) -> None:
        # vanilla: 0 to 50 % in 100 s; the other: 0 to 100 % in 50 s, half of it in 25
        write_method_run(tmp_path / "v", "vanilla", 42, seconds=100.0, solved=2)
        write_method_run(tmp_path / "a", "actfirst", 42, seconds=50.0, solved=4)
        shown = markdown(join([write_report([tmp_path], tmp_path / "report").parent / "figures.json"]))
        assert "| ActFirst-OPD | 42 | 100.0 | 100.0 |" in shown
        assert "| 2.00 | 4.00 |" in shown

    def test_who_stands_where_before_the_end(self, tmp_path: Path) -> None:
        # vanilla ends at 25 and 50 %; the other is at 50 and 100 % after half of its 60 seconds
        for seed, solved in ((42, 1), (43, 2)):
            write_method_run(tmp_path / f"v{seed}", "vanilla", seed, seconds=90.0, solved=solved)
            run = write_method_run(tmp_path / f"a{seed}", "actfirst", seed, seconds=60.0, solved=4)
            middle = run / "evaluations" / "update-000004.json"
            write_evaluation(middle, "actfirst", 2 * solved, update=4, training_seconds=30.0)
        shown = markdown(join([write_report([tmp_path], tmp_path / "report").parent / "figures.json"]))
        row = "| ActFirst-OPD | 4 | 75.0 ± 35.4 | 3.00 ± 0.00 | +37.5 | -121.3 to +196.3 | +25.0, +50.0 |"
        assert row in shown

    def test_seconds_of_two_places_are_not_compared(self, tmp_path: Path) -> None:
        files = [self.figures(tmp_path / name, (name, 42, 2)) for name in ("vanilla", "actfirst")]
        assert "| 51 | – | – |" in markdown(join(files))

    def test_a_run_begins_where_the_student_began_elsewhere(self, tmp_path: Path) -> None:
        here = self.figures(tmp_path / "here", ("vanilla", 42, 2))
        text = json.loads(here.read_text())
        (setting,) = text["settings"]
        start = {**setting["methods"][0]["runs"][0]["final"], "success": 5.0}
        setting["others"] = {"Zero-shot student (a)": start}
        here.write_text(json.dumps(text))
        there = self.figures(tmp_path / "there", ("vanilla", 43, 2))
        text = json.loads(there.read_text())
        del text["settings"][0]["methods"][0]["runs"][0]["curve"][0]
        there.write_text(json.dumps(text))
        (method,) = join([here, there]).settings[0].methods
        assert [run.curve[0].success_rate for run in method.runs] == [0.0, 5.0]

    def test_a_seed_twice_is_refused(self, tmp_path: Path) -> None:
        one = self.figures(tmp_path / "here", ("vanilla", 42, 1))
        two = self.figures(tmp_path / "there", ("vanilla", 42, 2))
        with pytest.raises(ConfigError, match="both have Vanilla OPD with seed 42"):
            join([one, two])

    def test_other_games_are_refused(self, tmp_path: Path) -> None:
        one = self.figures(tmp_path / "here", ("vanilla", 42, 1))
        two = self.figures(tmp_path / "there", ("vanilla", 43, 2))
        text = two.read_text()
        two.write_text(text.replace(json.loads(text)["settings"][0]["game_ids"][0], "another-game"))
        with pytest.raises(ConfigError, match="other games"):
            join([one, two])

    def test_a_file_that_lacks_a_game_is_refused(self, tmp_path: Path) -> None:
        path = self.figures(tmp_path, ("vanilla", 42, 1))
        text = json.loads(path.read_text())
        text["settings"][0]["game_ids"].pop()
        path.write_text(json.dumps(text))
        with pytest.raises(RunFolderError, match=r"seed 42 has the success at 4 games, game_ids names 3"):
            join([path])

    def test_a_file_of_another_kind_is_refused(self, tmp_path: Path) -> None:
        (tmp_path / "other.json").write_text("[1, 2]")
        with pytest.raises(RunFolderError, match=r"other\.json cannot be read: settings"):
            join([tmp_path / "other.json"])
