"""`actfirst sft` as a run: killed anywhere it ends as if nothing had happened; data that changed is refused."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.errors import ConfigError, RunFolderError, RunStopped
from actfirst.runs.lines import SftLine
from actfirst.runs.run import open_run
from actfirst.training.sft import SftWatcher, fine_tune
from actfirst.training.sft_examples import Examples, read_examples
from tests.support.tiny_run import overrides

STEPS = 5


class Killed(BaseException):
    """Stands for a SIGKILL: nothing after it is run but what closes files."""


class KillAt(SftWatcher):
    def __init__(self, step: int) -> None:
        self._step = step

    def step(self, line: SftLine) -> None:
        if line.step == self._step:
            raise Killed


def tiny(folder: Path, *more: str) -> Config:
    data = 'sft.data=[{kind = "demonstrator", tasks = 4, success = false}]'
    steps = [
        f"sft.steps={STEPS}",
        "sft.batch_size=3",
        "sft.warmup=2",
        "sft.held_out=0.4",
        "sft.held_out_every=2",
    ]
    return resolve("pocket", overrides(folder, data, *steps, "sft.learning_rate=1e-3", "sft.full=0.5", *more))


def weights(run: Path) -> dict[str, torch.Tensor]:
    from safetensors.torch import load_file

    return load_file(open_run(run).checkpoints()[-1].model / "model.safetensors")


def lines(run: Path) -> list[dict[str, object]]:
    """The lines of a run without what the clock says."""
    found = [line.to_json() for line in open_run(run).lines]
    return [{key: value for key, value in line.items() if "seconds" not in key} for line in found]


@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_run_killed_at_any_step_resumes_and_ends_bit_for_bit_as_an_uninterrupted_one(
    tmp_path: Path, step: int
) -> None:
    config = tiny(tmp_path, "sft.next_action=0.5")
    fine_tune(config, tmp_path / "whole")
    with pytest.raises(Killed):
        fine_tune(config, tmp_path / "killed", watcher=KillAt(step))
    fine_tune(config, tmp_path / "killed", resume=True)
    whole, resumed = weights(tmp_path / "whole"), weights(tmp_path / "killed")
    assert all(torch.equal(value, resumed[name]) for name, value in whole.items())
    assert lines(tmp_path / "killed") == lines(tmp_path / "whole")


class Signalling(SftWatcher):
    """Sends this process a signal after a step."""

    def __init__(self, number: int, after: int) -> None:
        self._number, self._after = number, after

    def step(self, line: SftLine) -> None:
        if line.step == self._after:
            os.kill(os.getpid(), self._number)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_stores_a_checkpoint_and_the_run_goes_on_from_there(
    tmp_path: Path, number: int, code: int
) -> None:
    config = tiny(tmp_path, "checkpoint.every=100")
    with pytest.raises(RunStopped) as stopped:
        fine_tune(config, tmp_path / "run", watcher=Signalling(number, after=2))
    assert stopped.value.code == code
    run = open_run(tmp_path / "run")
    reached = len([line for line in run.lines if isinstance(line, SftLine)])
    assert 2 <= reached < STEPS
    assert [checkpoint.update for checkpoint in run.checkpoints()] == [reached]
    assert fine_tune(config, tmp_path / "run", resume=True).updates == STEPS


class Impatient(SftWatcher):
    def reading(self, done: int, of: int, source: str) -> None:
        assert done == 1, "reading went on"
        os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_ends_it_at_once_while_examples_are_read(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        fine_tune(tiny(tmp_path), tmp_path / "run", watcher=Impatient())
    assert not (tmp_path / "run").exists()


def test_the_folder_of_a_run_says_what_was_done(tmp_path: Path) -> None:
    config = tiny(tmp_path, "evaluation.at_end=true")
    summary = fine_tune(config, tmp_path / "run")
    found = [line for line in open_run(tmp_path / "run").lines if isinstance(line, SftLine)]
    assert [line.step for line in found] == [1, 2, 3, 4, 5]
    assert [line.held_out is not None for line in found] == [False, True, False, True, True]
    assert summary.held_out == (found[0].held_out_before, found[-1].held_out)
    assert summary.to_json() == json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary.success_rate.after is not None
    assert open_run(tmp_path / "run").evaluations[0].update == STEPS
    assert summary.examples + summary.held_out_examples == sum(
        sum(one.examples.values()) for one in summary.data
    )


def test_data_may_be_read_by_an_event_loop_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As worlds in worker processes are replayed."""

    def read(*given: Any) -> Examples:
        asyncio.run(asyncio.sleep(0))
        return read_examples(*given)

    monkeypatch.setattr("actfirst.training.sft.read_examples", read)
    assert fine_tune(tiny(tmp_path), tmp_path / "run").updates == STEPS


def test_a_run_does_not_go_on_with_other_data(tmp_path: Path) -> None:
    data = tmp_path / "pairs.jsonl"
    data.write_text('{"prompt": "one", "response": "1"}\n')
    config = tiny(tmp_path, f'sft.data=[{{kind = "pairs", path = "{data}"}}]', "sft.held_out=0.0")
    with pytest.raises(Killed):
        fine_tune(config, tmp_path / "run", watcher=KillAt(2))
    data.write_text('{"prompt": "one", "response": "2"}\n')
    with pytest.raises(RunFolderError, match="the data has changed since this run began"):
        fine_tune(config, tmp_path / "run", resume=True)


def test_a_folder_that_holds_a_run_is_not_begun_again(tmp_path: Path) -> None:
    config = tiny(tmp_path)
    with pytest.raises(Killed):
        fine_tune(config, tmp_path / "run", watcher=KillAt(1))
    with pytest.raises(RunFolderError, match="already holds a run; add --resume"):
        fine_tune(config, tmp_path / "run")


def test_shares_that_are_all_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="are all 0: nothing would be shown"):
        resolve("pocket", ["sft.full=0.0"])
