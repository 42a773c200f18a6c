"""What metric services are told: grouped names, on lines made by hand."""

from __future__ import annotations

from dataclasses import replace

from actfirst.records import Observation, Verdict
from actfirst.runs.lines import BatchLine, EvaluationLine, UpdateLine
from actfirst.runs.tracking import (
    COLUMNS,
    batch_values,
    evaluation_values,
    rollout_rows,
    update_values,
)
from tests.support.run_folders import NO_ALIGNMENT, batch, update
from tests.terminal.watching import episode, evaluated


def test_an_update_tells_of_learning_stages_and_the_ledger() -> None:
    line = UpdateLine.model_validate(
        {**update(4, 10.0), "extra": {"entropy": 0.5}, "tokens": 90, "seconds": 3.0}
    )
    values = update_values(line)
    assert values["train/loss"] == 0.25
    assert values["train/reverse_kl"] == 0.5
    assert values["train/entropy"] == 0.5
    assert values["stage/rollout_seconds"] == 7.0
    assert values["throughput/trained_tokens_per_second"] == 30.0
    ledger = {name: value for name, value in values.items() if name.startswith("ledger/")}
    assert ledger == {
        "ledger/generated": 40,
        "ledger/trained": 37,
        "ledger/discarded": 2,
        "ledger/discarded/stale": 2,
        "ledger/buffered": 1,
    }


def test_what_was_not_measured_is_not_told() -> None:
    values = update_values(UpdateLine.model_validate(update(1, 1.0, reverse_kl=None)))
    assert "train/reverse_kl" not in values
    assert "train/clip_fraction" not in values


def test_a_batch_tells_of_success_alignment_and_throughput() -> None:
    line = BatchLine.model_validate({**batch(0, succeeded=3), "seconds": 2.0})
    values = batch_values(line)
    assert values["rollout/success"] == 75.0
    assert values["rollout/turns"] == 5.0
    assert values["alignment/first_action"] == 75.0
    assert values["throughput/transitions_per_second"] == 10.0
    assert values["throughput/full_tokens_per_second"] == 125.0
    unguided = batch_values(BatchLine.model_validate(batch(0, alignment=NO_ALIGNMENT)))
    assert not any(name.startswith("alignment/") for name in unguided)


def test_an_evaluation_tells_of_task_types_and_the_teacher_has_its_own_group() -> None:
    line: EvaluationLine = evaluated(40, update=3)
    values = evaluation_values(line)
    assert (
        values["evaluation/success"]
        == values["evaluation/task/kind"]
        == values["evaluation/split/seen"]
        == 40.0
    )
    assert values["evaluation/rounds"] == 5.0
    assert set(evaluation_values(evaluated(90, "teacher"))) == {
        name.replace("evaluation/", "evaluation_teacher/") for name in values
    }


def test_every_name_is_in_a_group() -> None:
    told = {
        **update_values(UpdateLine.model_validate(update(1, 1.0))),
        **batch_values(BatchLine.model_validate(batch(0))),
        **evaluation_values(evaluated(40)),
    }
    assert all("/" in name for name in told)


def test_a_row_shows_a_rollout_and_where_it_left_the_reference() -> None:
    played = episode((5, 7))
    first, second = played.turns
    played = replace(
        played,
        turns=(replace(first, verdict=Verdict.ALIGNED), replace(second, verdict=Verdict.DIVERGED)),
        final=Observation("You won.", (), done=True, success=True),
    )
    (row,) = rollout_rows([played])
    shown = dict(zip(COLUMNS, row, strict=True))
    assert shown["success"] == "yes"
    assert shown["turns"] == "2"
    assert shown["where it left the reference"] == "turn 2: diverged"
    assert shown["transcript"].count("> look  [next_action]") == 2
    assert shown["transcript"].endswith("You won.")
