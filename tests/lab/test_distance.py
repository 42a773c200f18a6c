"""How far models are from the teacher: intervals by hand, and the models that ship."""

from __future__ import annotations

import pytest

from actfirst.config.load import resolve
from actfirst.errors import ConfigError, TeacherError
from actfirst.lab.distance import Answer, Workload, measure, summarise
from actfirst.lab.quality_bench import FrozenCheckpoint
from actfirst.models.folder import resolve_model


def answer(task: str, distance: float | None, *, listed: bool = True) -> Answer:
    return Answer(task=task, turn=1, distance=distance, tokens=10, admissible=listed)


def test_contexts_of_a_task_count_as_one_and_changes_are_paired_by_task() -> None:
    # before: tasks at 0.2 (of 0.1 and 0.3) and 0.4; after: 0.1 and 0.2, so -0.1 and -0.2
    before = [answer("a", 0.1), answer("a", 0.3), answer("b", 0.4, listed=False), answer("c", None)]
    after = [answer("a", 0.1), answer("a", 0.1), answer("b", 0.2), answer("d", 9.0)]
    first, second = summarise({"before": before, "after": after})
    assert first.distance == pytest.approx(0.3)
    assert (first.change, first.contexts, first.admissible) == (None, 4, 75.0)
    assert second.change == pytest.approx(-0.15)
    assert second.change_interval is not None
    # the standard error is 0.05, Student's t with one degree of freedom 12.706
    assert second.change_interval.low == pytest.approx(-0.15 - 12.706 * 0.05)
    assert second.change_interval.high == pytest.approx(-0.15 + 12.706 * 0.05)


def test_one_task_has_no_interval() -> None:
    (only,) = summarise({"model": [answer("a", 0.1), answer("a", 0.3)]})
    assert only.distance == pytest.approx(0.2)
    assert only.interval is None


def test_a_model_that_never_answered_is_an_error_and_no_zero() -> None:
    with pytest.raises(ConfigError, match="quiet generated nothing in any of the 1 contexts"):
        summarise({"quiet": [answer("a", None)]})


def test_the_teacher_is_at_no_distance_from_itself_and_the_student_is() -> None:
    told: list[tuple[int, int, str]] = []
    named = [FrozenCheckpoint(name, resolve_model(f"pocket:{name}", "")) for name in ("student", "teacher")]
    found = measure(resolve("pocket", []), named, Workload(tasks=3, per_task=2), lambda *one: told.append(one))
    rows = {row.model: row for row in summarise(found)}
    assert rows["teacher"].distance == pytest.approx(0.0, abs=1e-3)
    assert rows["student"].distance > 0.05
    where = {name: [(one.task, one.turn) for one in answers] for name, answers in found.items()}
    assert where["student"] == where["teacher"], "the same contexts"
    assert len(set(where["student"])) == 6
    assert [one[:2] for one in told if one[2] == "teacher"] == [(done, 6) for done in range(1, 7)]


def test_a_teacher_with_other_tokens_is_refused() -> None:
    student = FrozenCheckpoint("student", resolve_model("pocket:student", ""))
    config = resolve("pocket", ["models.teacher=alfworld-mini:teacher"])
    with pytest.raises(TeacherError, match="do not share a tokenizer"):
        measure(config, [student], Workload(tasks=1, per_task=1), lambda *one: None)
