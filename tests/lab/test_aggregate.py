"""Marks, ranks with ties and drops, by hand."""

from __future__ import annotations

from actfirst.lab.aggregate import Mark, Result, ablation, average_ranks, marks


class TestMarks:
    def test_best_and_second_best(self) -> None:
        found = marks({"a": 1.0, "b": 3.0, "c": 2.0}, digits=2)
        assert found == {"a": Mark.NONE, "b": Mark.BEST, "c": Mark.SECOND}

    def test_lower_may_be_better(self) -> None:
        found = marks({"a": 1.0, "b": 3.0, "c": 2.0}, digits=2, higher_is_better=False)
        assert found == {"a": Mark.BEST, "b": Mark.NONE, "c": Mark.SECOND}

    def test_equal_numbers_share_a_mark_and_the_next_one_is_second(self) -> None:
        found = marks({"a": 42.0, "b": 42.0, "c": 41.67, "d": 41.67, "e": 40.0}, digits=2)
        assert [found[name].value for name in "abcde"] == ["best", "best", "second", "second", ""]

    def test_numbers_that_look_equal_are_equal(self) -> None:
        assert marks({"a": 1.231, "b": 1.234}, digits=2) == {"a": Mark.BEST, "b": Mark.BEST}


class TestRanks:
    def test_the_best_is_first(self) -> None:
        assert average_ranks({"a": 10.0, "b": 30.0, "c": 20.0}) == {"a": 3.0, "b": 1.0, "c": 2.0}

    def test_ties_share_the_average_of_their_ranks(self) -> None:
        # b and c hold ranks 2 and 3; d, e and f ranks 4, 5 and 6
        found = average_ranks({"a": 9.0, "b": 7.0, "c": 7.0, "d": 1.0, "e": 1.0, "f": 1.0})
        assert found == {"a": 1.0, "b": 2.5, "c": 2.5, "d": 5.0, "e": 5.0, "f": 5.0}

    def test_all_equal(self) -> None:
        assert set(average_ranks(dict.fromkeys("abc", 4.0)).values()) == {2.0}

    def test_ranks_always_sum_to_the_same(self) -> None:
        assert sum(average_ranks({"a": 3.0, "b": 3.0, "c": 1.0, "d": 2.0}).values()) == 10.0


class TestAblation:
    SETTINGS = (
        {"ours": Result(80.0, 10.0), "x": Result(70.0, 20.0), "y": Result(70.0, 5.0)},
        {"ours": Result(60.0, 30.0), "x": Result(65.0, 40.0), "y": Result(20.0, 5.0)},
    )

    def test_means_drops_times_and_ranks(self) -> None:
        rows = ablation(self.SETTINGS, "ours")
        assert (rows["ours"].success, rows["ours"].drop, rows["ours"].seconds) == (70.0, 0.0, 20.0)
        assert (rows["x"].success, rows["x"].drop, rows["x"].seconds) == (67.5, 2.5, 30.0)
        # ranks: ours 1 and 2; x 2.5 and 1; y 2.5 and 3
        assert [rows[name].rank for name in ("ours", "x", "y")] == [1.5, 1.75, 2.75]

    def test_a_method_that_a_setting_lacks_is_left_out(self) -> None:
        first, second = self.SETTINGS
        rows = ablation([first, {"ours": second["ours"], "x": second["x"]}], "ours")
        assert list(rows) == ["ours", "x"]

    def test_without_ours_there_is_no_table(self) -> None:
        assert ablation(self.SETTINGS, "somebody else") == {}
        assert ablation([], "ours") == {}
