"""A run that is asked to end stores what it has learned, says how to go on, and goes on as if nothing had happened."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from actfirst.errors import RunStopped, TeacherError
from actfirst.runs.lines import EvaluationLine, UpdateLine, Who
from actfirst.runs.run import open_run
from actfirst.training import open as opening
from actfirst.training import run as training_run
from actfirst.training.open import train
from actfirst.training.stopping import Stop
from actfirst.training.watch import Watcher
from tests.support.tiny_run import tiny_config

SETTINGS = ("run.updates=5", "environment.turn_limit=5", "checkpoint.every=50")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def whole(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole") / "run"
    train(tiny_config(models, *SETTINGS), folder)
    return folder


def trained(folder: Path) -> list[tuple[str, ...]]:
    return [line.sample_ids for line in open_run(folder).updates]


class Signalling(Watcher):
    """Sends this process a signal after an update, or in the middle of an evaluation."""

    def __init__(self, number: int, after: int = 0, evaluating: int = 0) -> None:
        self.number, self.after, self.evaluated_one = number, after, evaluating

    def update(self, line: UpdateLine) -> None:
        if line.update == self.after:
            os.kill(os.getpid(), self.number)

    def evaluating(self, who: Who, done: int, of: int) -> None:
        if done == self.evaluated_one > 0:
            self.evaluated_one = 0
            os.kill(os.getpid(), self.number)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_stores_a_checkpoint_and_the_run_goes_on_from_there(
    number: int, code: int, models: Path, whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    config = tiny_config(models, *SETTINGS)
    with pytest.raises(RunStopped) as stopped:
        train(config, run, watcher=Signalling(number, after=2))
    assert stopped.value.code == code
    reached = len(trained(run))
    assert 2 <= reached < 5, "rollouts are not waited for"
    assert [checkpoint.update for checkpoint in open_run(run).checkpoints()] == [reached]
    assert train(config, run, resume=True).updates == 5
    assert trained(run) == trained(whole)


def test_an_evaluation_that_was_cut_short_is_made_when_the_run_goes_on(models: Path, tmp_path: Path) -> None:
    one_by_one = ("evaluation.at_end=true", "evaluation.batch_tasks=1")
    run, config = tmp_path / "run", tiny_config(models, "run.updates=2", *one_by_one)
    with pytest.raises(RunStopped):
        train(config, run, watcher=Signalling(signal.SIGTERM, evaluating=1))
    assert open_run(run).curve == ()
    assert not open_run(run).finished
    assert train(config, run, resume=True).success_rate.after is not None
    assert [point.update for point in open_run(run).curve] == [2]


def test_a_run_stops_before_its_deadline(
    models: Path, whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process is as old as the test says: too old after the second update."""
    age = [0.0]

    class Ageing(Watcher):
        def update(self, line: UpdateLine) -> None:
            if line.update == 2:
                age[0] = 999.0

    monkeypatch.setattr(training_run, "process_age", lambda: age[0])
    run = tmp_path / "run"
    config = tiny_config(models, *SETTINGS, "run.deadline=1000")
    with pytest.raises(RunStopped, match="deadline") as stopped:
        train(config, run, watcher=Ageing())
    assert stopped.value.code == 143
    assert [checkpoint.update for checkpoint in open_run(run).checkpoints()] == [len(trained(run))]
    age[0] = 0.0
    train(config, run, resume=True)
    assert trained(run) == trained(whole)


def test_a_request_while_a_run_is_being_opened_ends_it(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def slow(*_: object) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        await asyncio.Event().wait()

    monkeypatch.setattr(opening, "open_parts", slow)
    with pytest.raises(RunStopped) as stopped:
        train(tiny_config(models, *SETTINGS), tmp_path / "run")
    assert stopped.value.code == 143


def test_work_is_cancelled_only_if_it_is_not_done_when_the_end_is_asked_for() -> None:
    async def story() -> list[str]:
        stop, told = Stop(), []
        stop.opened()

        async def long() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                told.append("cancelled")

        async def short(then: Callable[[], None]) -> str:
            then()
            return "done"

        told.append(await stop.unless(short(lambda: stop.request("enough", 1))))
        for asked in (stop.check, None):
            with pytest.raises(RunStopped, match="enough"):
                asked() if asked else await stop.unless(long())
        return told

    assert asyncio.run(story()) == ["done", "cancelled"]


def test_a_finished_run_that_is_resumed_does_not_grow_older(models: Path, whole: Path) -> None:
    before = (whole / "summary.json").read_bytes(), (whole / "log.txt").read_bytes()
    summary = train(tiny_config(models, *SETTINGS), whole, resume=True)
    assert summary == open_run(whole).summary
    assert before == ((whole / "summary.json").read_bytes(), (whole / "log.txt").read_bytes())


def test_the_accounts_of_time_add_up(whole: Path, models: Path, tmp_path: Path) -> None:
    evaluating = ("run.updates=2", "evaluation.at_end=true", "evaluation.at_start=true")
    summary = train(tiny_config(models, *evaluating), tmp_path / "run")
    stages = dict(summary.seconds_by_stage)
    assert stages["start-up"] > 0
    evaluation = stages.pop("evaluation")
    assert sum(stages.values()) == pytest.approx(summary.training_seconds)
    assert summary.process_seconds >= summary.training_seconds + evaluation
    for line in open_run(whole).updates:
        assert sum(line.stages.values()) == pytest.approx(line.training_seconds, abs=0.05)


def test_the_first_evaluation_may_have_fewer_tasks_than_the_others(models: Path, tmp_path: Path) -> None:
    settings = (
        "run.updates=1",
        "evaluation.at_start=true",
        "evaluation.at_end=true",
        "evaluation.start_tasks=2",
    )
    train(tiny_config(models, *settings), tmp_path / "run")
    found: tuple[EvaluationLine, ...] = open_run(tmp_path / "run").curve
    assert [(line.update, line.tasks) for line in found] == [(0, 2), (1, 4)]


def test_a_failed_start_leaves_no_folder(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def does_not_fit(*_: object) -> None:
        raise TeacherError("the teacher does not fit")

    monkeypatch.setattr(opening, "prove_parts", does_not_fit)
    with pytest.raises(TeacherError):
        train(tiny_config(models, *SETTINGS), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_that_had_begun_keeps_its_folder_when_it_fails_to_start_again(
    models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    train(tiny_config(models, "run.updates=1"), run)

    async def does_not_fit(*_: object) -> None:
        raise TeacherError("the teacher does not fit")

    monkeypatch.setattr(opening, "prove_parts", does_not_fit)
    with pytest.raises(TeacherError):
        train(tiny_config(models, "run.updates=2"), run, resume=True)
    assert len(trained(run)) == 1
