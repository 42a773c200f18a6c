"""`actfirst torture`: a run that is troubled survives; one that would not is noticed."""

from __future__ import annotations

import random
import shutil
import signal
from pathlib import Path

import pytest

from actfirst.cli.lab.torture import _command
from actfirst.lab.torture.torture import Tortured, Torturer
from actfirst.lab.torture.troubles import Kill, NoSpace, Signal, draw
from tests.support.tiny_run import overrides

SMALL = (
    "run.updates=2",
    "rollout.tasks_per_batch=2",
    "learner.batch_size=2",
    "environment.turn_limit=2",
    "rollout.generation.response_limit=24",
    "checkpoint.every=1",
)


@pytest.fixture(scope="module")
def torturer(tmp_path_factory: pytest.TempPathFactory) -> Torturer:
    folder = tmp_path_factory.mktemp("torture")
    return Torturer(_command, ["pocket", *overrides(folder, *SMALL)], folder, exact=True)


@pytest.mark.slow
def test_kills_and_full_disks_are_survived_and_counted(torturer: Torturer) -> None:
    result = Tortured(0)
    for trouble in (Kill("rename", 2), NoSpace("fsync", 12), Kill("write", 10_000)):
        torturer.trial(trouble, result)
    assert result.failures == []
    kills, full = result.kinds["kill at a file operation"], result.kinds["full disk"]
    assert (kills.tried, kills.struck, kills.survived, kills.failed) == (2, 1, 2, 0)
    assert (full.tried, full.struck, full.survived) == (1, 1, 1)


class Forger(Kill):
    """Ends a run, and harms what it left: the run that is resumed cannot be the same."""

    def __call__(self) -> None:
        import os

        real = os.rename

        def harmful(*arguments: object, **more: object) -> None:
            real(*arguments, **more)  # type: ignore[arg-type]
            run = Path(str(arguments[1])).parents[1]
            shutil.copyfile(run / "metrics.jsonl", run / "copy")
            (run / "metrics.jsonl").unlink()
            os.kill(os.getpid(), signal.SIGKILL)

        os.rename = harmful  # type: ignore[assignment]


@pytest.mark.slow
def test_a_run_that_lost_something_is_noticed_and_kept(torturer: Torturer) -> None:
    result = Tortured(0)
    torturer.trial(Forger("rename", 1, "forgery"), result)
    assert result.kinds["forgery"].failed == 1
    assert "Forger" in result.failures[0]


def test_troubles_are_drawn_by_the_seed_and_of_all_kinds() -> None:
    drawn = [draw(random.Random(seed), 40, 5.0) for seed in range(200)]
    assert drawn == [draw(random.Random(seed), 40, 5.0) for seed in range(200)]
    assert len({trouble.kind for trouble in drawn}) == 4
    assert all(trouble.seconds <= 5.0 for trouble in drawn if isinstance(trouble, Signal))
