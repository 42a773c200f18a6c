"""Runs `actfirst` commands in this process and keeps what they printed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

from actfirst.cli.main import main
from actfirst.config.config import Config
from actfirst.runs.lines import LedgerCounts, SuccessRates, Summary


@dataclass(frozen=True)
class Finished:
    """What a command left behind."""

    code: int
    out: str
    err: str


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> Finished:
    """Run `actfirst` with the arguments."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    captured = capsys.readouterr()
    code = stopped.value.code
    return Finished(code if isinstance(code, int) else 0, captured.out, captured.err)


class FakeRuntime(ModuleType):
    """Stands in for `actfirst.training.open`: remembers what it was asked to train, and trains nothing."""

    def __init__(self, failure: BaseException | None = None) -> None:
        super().__init__("actfirst.training.open")
        self.failure = failure
        self.calls: list[tuple[Config, Path, bool]] = []

    def train(self, config: Config, folder: Path, *, resume: bool = False, watcher: object = None) -> Summary:
        self.calls.append((config, folder, resume))
        if self.failure is not None:
            raise self.failure
        return Summary(
            title="a fake run",
            updates=config.run.updates,
            success_rate=SuccessRates(),
            training_seconds=1.0,
            seconds_by_stage={},
            ledger=LedgerCounts(),
        )


def install(monkeypatch: pytest.MonkeyPatch, failure: BaseException | None = None) -> FakeRuntime:
    """Put a fake runtime in place of the real one."""
    runtime = FakeRuntime(failure)
    monkeypatch.setitem(sys.modules, "actfirst.training.open", runtime)
    return runtime
