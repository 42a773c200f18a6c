"""Checkpoints and judges that the engine tests share, made once."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import torch

from actfirst.engines.embedded import EmbeddedEngine
from actfirst.engines.stepping import SteppingLoop
from tests.engines.contract import Judge, MakeEngine, Watch, section
from tests.support.tiny_models import make_tiny_checkpoint

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def in_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine's thread begins a step only after the test's event loop has gone round, and while a test watches
    the engine, only after it has looked: the engine cannot finish unseen, on however busy a machine."""
    alone = SteppingLoop._step

    def step(self: SteppingLoop[Any], admit: bool) -> None:
        asking = next((request.future.get_loop() for request in self.stepper.pending()), None)
        if asking is not None:
            gone_round = threading.Event()
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody looks any more
                asking.call_soon_threadsafe(_let_go, asking, gone_round)
                gone_round.wait(10)  # a loop that ends meanwhile never says so
        alone(self, admit)

    monkeypatch.setattr(SteppingLoop, "_step", step)


def _let_go(loop: asyncio.AbstractEventLoop, step: threading.Event) -> None:
    """Timers go off in the order of their times: whoever looks every millisecond has looked before two are over."""
    if Watch.watching:
        loop.call_later(2 * Watch.EVERY, step.set)
    else:
        step.set()


@pytest.fixture(scope="session", params=["qwen3", "qwen2", "llama"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp(request.param), architecture=request.param)


@pytest.fixture(scope="session")
def judge(checkpoint: Path) -> Judge:
    return Judge(checkpoint)


@pytest.fixture(scope="session")
def endless(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model without an end-of-sequence token: what it generates is as long as it may be."""
    return without_end(checkpoint, tmp_path_factory.mktemp("endless") / checkpoint.name)


@pytest.fixture
async def make_embedded() -> AsyncIterator[MakeEngine]:
    """Makes embedded engines, and closes them after the test."""
    engines: list[EmbeddedEngine] = []

    async def make(folder: Path, *, general: bool = False, **options: object) -> EmbeddedEngine:
        engines.append(EmbeddedEngine.from_pretrained(folder, section(**options), general=general))
        return engines[-1]

    yield make
    for engine in engines:
        await engine.close()


def without_end(checkpoint: Path, folder: Path) -> Path:
    """A copy of a checkpoint in `folder` that names no end-of-sequence token."""
    shutil.copytree(checkpoint, folder)
    for name, key in (
        ("config", "eos_token_id"),
        ("generation_config", "eos_token_id"),
        ("tokenizer_config", "eos_token"),
    ):
        path = folder / f"{name}.json"
        path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != key}))
    return folder
