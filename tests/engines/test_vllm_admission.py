"""The stepping loop over vLLM's admission: order, versions and failures, with a core that only pretends to compute.

The same rules are proven with vLLM itself in test_vllm.py, where vLLM is installed.
"""

from __future__ import annotations

import asyncio
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, Protocol, cast

import numpy as np
import pytest
import torch

from actfirst.config.engine_sections import Swap
from actfirst.engines.base import Priority, Sampling
from actfirst.engines.stepped import Limits
from actfirst.engines.stepping import SteppingLoop
from actfirst.engines.vllm.admission import Admission, Request
from actfirst.engines.vllm.core import VllmCore, folder_for, scored
from actfirst.engines.vllm.engine import empty_model
from actfirst.engines.vllm.stderr import Teed, root_cause
from actfirst.engines.vllm.turns import Turns
from actfirst.engines.vllm.work import Failed, Finished, Generating, Refused, Scoring, Work
from actfirst.errors import EngineDied, EngineError
from actfirst.models.shapes import read_shape
from actfirst.records import Completion, Scores, StopReason
from tests.engines.contract import until
from tests.support.tiny_models import make_tiny_checkpoint


@dataclass
class Pretence:
    """Every generation takes `max_tokens` steps, every scoring one. Tokens are those of the weights."""

    left: dict[str, int] = field(default_factory=dict)
    works: dict[str, Work] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    installed: list[int] = field(default_factory=list)
    token: int = 0
    found: list[str] = field(default_factory=list)  # under way when weights came
    closed: bool = False
    held: threading.Event = field(default_factory=threading.Event)
    explode: Exception | None = None
    unusable: Exception | None = None
    unstartable: Exception | None = None

    def __post_init__(self) -> None:
        self.held.set()

    def start(self, name: str, work: Work) -> None:
        if isinstance(work, Generating) and work.prompt == (13,):
            raise Refused("thirteen")
        if self.unstartable is not None:
            raise self.unstartable
        self.started.append(name)
        self.works[name] = work
        self.left[name] = work.sampling.max_tokens if isinstance(work, Generating) else 1

    def cancel(self, name: str) -> None:
        del self.left[name]
        self.cancelled.append(name)

    def step(self) -> list[Finished | Failed]:
        self.held.wait(10)
        if self.explode is not None:
            raise self.explode
        self.left = {name: left - 1 for name, left in self.left.items()}
        done = [name for name, left in self.left.items() if left == 0]
        for name in done:
            del self.left[name]
        return [self._finished(name, self.works[name]) for name in done]

    def _finished(self, name: str, work: Work) -> Finished | Failed:
        if isinstance(work, Generating) and work.prompt == (14,):
            return Failed(name, "fourteen")
        if isinstance(work, Scoring):
            return Finished(
                name, (), (-1.0,) * (len(work.ids) - work.begin), StopReason.LENGTH, len(work.ids), 0
            )
        count = work.sampling.max_tokens
        tokens, logprobs = (self.token,) * count, (-0.5,) * count
        return Finished(name, tokens, logprobs, StopReason.LENGTH, len(work.prompt) - 1, 1)

    def install(self, weights: Mapping[str, torch.Tensor]) -> None:
        self.found += self.left
        if self.unusable is not None:
            raise self.unusable
        self.token = int(weights["token"])
        self.installed.append(self.token)

    def close(self) -> None:
        self.closed = True


@dataclass
class Bench:
    core: Pretence
    loop: SteppingLoop[Request]
    in_flight: bool

    def ask(self, work: Work) -> Request:
        request = Request(work, asyncio.get_running_loop().create_future())
        self.loop.ask(request)
        return request

    def generate(self, tokens: int, priority: Priority = Priority.FULL) -> Request:
        return self.ask(Generating((1, 2), Sampling(max_tokens=tokens), priority))

    def load(self, token: int, version: int) -> asyncio.Future[None]:
        return self.loop.load({"token": torch.tensor(token)}, version)


class MakeBench(Protocol):
    def __call__(self, cap: int, *, priority: bool = True, swap: Swap = "drain") -> Bench: ...


@pytest.fixture
async def bench() -> AsyncIterator[MakeBench]:
    made: list[Bench] = []

    def make(cap: int, *, priority: bool = True, swap: Swap = "drain") -> Bench:
        core = Pretence()
        admission = Admission(core, cap, priority=priority, swap=swap)
        made.append(Bench(core, SteppingLoop(admission, name="pretence", threads=1), swap == "in_flight"))
        return made[-1]

    yield make
    for item in made:
        item.core.held.set()
        item.loop.close()
        item.loop.thread.join(10)
        assert not item.loop.thread.is_alive()
        assert item.core.closed
        assert item.in_flight or not item.core.found


async def test_a_request_gets_what_the_core_made_of_it(bench: MakeBench) -> None:
    it = bench(4)
    done: Completion = await it.generate(3).future
    assert done == Completion((0, 0, 0), (-0.5,) * 3, StopReason.LENGTH, version=0)
    assert await it.ask(Scoring((1, 2, 3, 4), 2)).future == Scores((-1.0, -1.0))
    stats = it.loop.stats()
    assert (stats.requests, stats.generated_tokens, stats.scored_tokens) == (2, 3, 2)
    assert (stats.prefilled_tokens, stats.cached_tokens, stats.full_ended) == (1 + 4, 1, 1)


async def test_no_more_than_the_cap_are_inside_and_fast_ones_go_first(bench: MakeBench) -> None:
    it = bench(2)
    it.core.held.clear()
    running = [it.generate(5), it.generate(5)]
    await until(lambda: it.loop.stats().running == 2)
    waiting = [
        it.generate(1),
        it.generate(1, Priority.FAST),
        it.ask(Scoring((1, 2), 1)),
        it.generate(1, Priority.FAST),
    ]
    await until(lambda: it.loop.stats().waiting == 4)
    it.core.held.set()
    await asyncio.gather(*(request.future for request in [*running, *waiting]))
    assert it.core.started[2:] == [waiting[i].name for i in (1, 3, 0, 2)]


async def test_without_priority_requests_are_admitted_as_they_came(bench: MakeBench) -> None:
    it = bench(1, priority=False)
    it.core.held.clear()
    running = it.generate(2)
    await until(lambda: it.loop.stats().running == 1)
    waiting = [it.generate(1), it.generate(1, Priority.FAST), it.generate(1), it.generate(1, Priority.FAST)]
    it.core.held.set()
    await asyncio.gather(*(request.future for request in [running, *waiting]))
    assert it.core.started[1:] == [request.name for request in waiting]


async def test_in_flight_weights_wait_for_nothing_and_a_completion_has_the_version_on_which_it_began(
    bench: MakeBench,
) -> None:
    it = bench(2, swap="in_flight")
    it.core.held.clear()
    old = it.generate(1000)
    await until(lambda: it.loop.stats().running == 1)
    swap = it.load(token=7, version=4)
    it.core.held.set()
    await swap
    assert it.core.found == [old.name]
    new = await it.generate(1).future
    assert (new.token_ids, new.version) == ((7,), 4)
    assert (await old.future).version == 0


async def test_weights_wait_for_what_runs_and_come_before_what_waits(bench: MakeBench) -> None:
    it = bench(1)
    it.core.held.clear()
    old = it.generate(4)
    await until(lambda: it.loop.stats().running == 1)
    queued = it.generate(2)
    swap = it.load(token=7, version=4)
    later = it.generate(1, Priority.FAST)
    it.core.held.set()
    await swap
    assert old.future.done()
    assert it.loop.version == 4
    first, second, third = [await request.future for request in (old, queued, later)]
    assert (first.token_ids, first.version) == ((0,) * 4, 0)
    assert (second.token_ids, second.version) == ((7, 7), 4)
    assert (third.token_ids, third.version) == ((7,), 4)


async def test_an_update_that_nobody_awaits_is_dropped(bench: MakeBench) -> None:
    it = bench(1)
    it.core.held.clear()
    running = it.generate(2)
    await until(lambda: it.loop.stats().running == 1)
    it.load(token=7, version=4).cancel()
    it.core.held.set()
    assert (await running.future).version == (await it.generate(1).future).version == 0
    assert it.core.installed == []


async def test_a_cancelled_request_leaves_its_place_or_the_queue(bench: MakeBench) -> None:
    it = bench(1)
    it.core.held.clear()
    running, waiting, kept = it.generate(1000), it.generate(1000), it.generate(1)
    await until(lambda: it.loop.stats().running == 1)
    await until(lambda: it.loop.stats().waiting == 2)
    it.loop.cancel(waiting)
    it.loop.cancel(running)
    it.core.held.set()
    assert (await kept.future).token_ids == (0,)
    it.loop.cancel(kept)  # too late: nothing happens
    assert it.core.cancelled == [running.name]
    await until(lambda: it.loop.stats().waiting == it.loop.stats().running == 0)
    assert waiting.name not in it.core.started


async def test_what_the_core_refuses_fails_alone(bench: MakeBench) -> None:
    it = bench(2)
    refused = it.ask(Generating((13,), Sampling(max_tokens=1), Priority.FULL))
    fine = it.generate(1)
    with pytest.raises(EngineError, match="refuses the request: thirteen"):
        await refused.future
    assert (await fine.future).token_ids == (0,)
    assert it.loop.stats().waiting == 0


async def test_what_the_core_gives_up_later_fails_alone(bench: MakeBench) -> None:
    it = bench(2)
    given_up = it.ask(Generating((14,), Sampling(max_tokens=1), Priority.FULL))
    fine = it.generate(2)
    with pytest.raises(EngineError, match="gave a request up: fourteen"):
        await given_up.future
    assert (await fine.future).token_ids == (0, 0)


@pytest.fixture
def vllm_errors(monkeypatch: pytest.MonkeyPatch) -> type[Exception]:
    """What vLLM 0.32 raises for a fault of a request. It is no ValueError. Faked only where vLLM is absent."""
    if importlib.util.find_spec("vllm") is not None:
        from vllm.exceptions import VLLMValidationError

        return cast("type[Exception]", VLLMValidationError)
    package, errors = ModuleType("vllm"), ModuleType("vllm.exceptions")
    client = type("VLLMClientError", (Exception,), {})
    package.TokensPrompt = dict  # type: ignore[attr-defined]
    errors.VLLMClientError = client  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "vllm", package)
    monkeypatch.setitem(sys.modules, "vllm.exceptions", errors)
    return type("VLLMValidationError", (client,), {})


def test_vllms_validation_error_is_a_refusal_and_leaves_nothing_behind(
    vllm_errors: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise vllm_errors("logprob_token_ids are out of range")

    core = VllmCore.__new__(VllmCore)
    core._priority, core._scoring, core._places, core._adapters = True, {}, False, {}
    core._engine = SimpleNamespace(renderer=SimpleNamespace(render_cmpl=lambda _: [{}]), add_request=refuse)
    monkeypatch.setattr("actfirst.engines.vllm.core.scoring", lambda work, places: None)
    assert not issubclass(vllm_errors, ValueError)
    with pytest.raises(Refused, match="out of range"):
        core.start("7", Scoring((1, 2, 3), 1))
    assert core._scoring == {}


def test_scores_of_given_places_and_of_the_whole_prompt_are_read_alike() -> None:
    """Tokens 5, 6 and 7 after a prompt of two: vLLM generates the last, and its prompt holds the others."""
    work = Scoring((1, 2, 5, 6, 7), 2)
    last = SimpleNamespace(token_ids=[9, 7], logprobs=[-9.0, -0.7])
    completion = [SimpleNamespace(logprobs=last)]
    whole: Any = SimpleNamespace(
        outputs=completion, prompt_logprobs=SimpleNamespace(logprobs=[-0.2, -0.5, -0.6])
    )
    places: Any = SimpleNamespace(outputs=completion, prompt_token_id_logprobs=np.array([[-0.5], [-0.6]]))
    assert scored(work, whole, places=False) == (-0.5, -0.6, -0.7)
    assert scored(work, places, places=True) == pytest.approx((-0.5, -0.6, -0.7))
    alone: Any = SimpleNamespace(outputs=completion, prompt_token_id_logprobs=None)
    assert scored(Scoring((1, 2, 7), 2), alone, places=True) == (-0.7,)


FAILING = """
import sys
try:
    raise OSError("no room on the device")
except OSError as error:
    sys.stderr.write("a line before\\n")
    raise RuntimeError("cannot start") from error
"""


def test_the_first_exception_of_a_failed_process_is_found_in_what_it_wrote() -> None:
    errors = Teed()
    with pytest.raises(subprocess.CalledProcessError), errors.started():
        subprocess.run([sys.executable, "-c", FAILING], check=True)
    cause = root_cause(errors.text())
    assert cause.splitlines()[0] == "OSError: no room on the device"
    assert "Traceback (most recent call last)" in cause
    assert "RuntimeError: cannot start" in errors.text()
    assert root_cause("all is well\n") == ""


def test_the_error_stream_is_the_old_one_after_processes_have_started(
    capfd: pytest.CaptureFixture[str],
) -> None:
    errors = Teed()
    with errors.started():
        child = subprocess.Popen([sys.executable, "-c", "import os; os.write(2, b'from the child')"])
    os.write(2, b"from here ")
    child.wait(60)
    deadline = [0.1] * 100
    while "child" not in errors.text() and deadline:
        time.sleep(deadline.pop())
    assert errors.text() == "from the child"
    shown = capfd.readouterr().err
    assert "from here" in shown
    assert "from the child" in shown


async def test_an_exception_in_a_step_fails_everything_with_its_cause(bench: MakeBench) -> None:
    it = bench(1)
    it.core.held.clear()
    pending: list[asyncio.Future[Any]] = [it.generate(9).future, it.generate(9).future]
    await until(lambda: it.loop.stats().running == 1)
    pending.append(it.load(7, 4))
    it.core.explode = MemoryError("no more of it")
    it.core.held.set()
    for future in pending:
        with pytest.raises(EngineDied, match="died of MemoryError: no more of it"):
            await future
    with pytest.raises(EngineDied, match="died of MemoryError"):
        it.generate(1)


async def test_weights_that_cannot_be_installed_fail_whoever_waits_for_them(bench: MakeBench) -> None:
    it = bench(1)
    it.core.unusable = RuntimeError("a file is gone")
    it.core.held.clear()
    it.generate(1)
    await until(lambda: it.loop.stats().running == 1)
    loads = [it.load(7, 4), it.load(8, 5)]  # both wait for what is under way
    it.core.held.set()
    for load in loads:
        with pytest.raises(EngineDied, match="died of RuntimeError: a file is gone"):
            await asyncio.wait_for(load, 5)
    assert it.loop.version == 0


async def test_a_request_that_kills_the_core_as_it_starts_fails_too(bench: MakeBench) -> None:
    it = bench(1)
    it.core.unstartable = MemoryError("no more of it")
    with pytest.raises(EngineDied, match="died of MemoryError"):
        await asyncio.wait_for(it.generate(1).future, 5)


async def test_a_closed_engine_fails_what_is_pending_and_refuses_more(bench: MakeBench) -> None:
    it = bench(1)
    it.core.held.clear()
    pending = it.generate(1000)
    await until(lambda: it.loop.stats().running == 1)
    it.loop.close()
    it.core.held.set()
    with pytest.raises(EngineError, match="closed") as closed:
        await pending.future
    assert not isinstance(closed.value, EngineDied)  # nobody else is to take it
    it.loop.thread.join(10)
    with pytest.raises(EngineError, match="closed"):
        it.generate(1)


async def test_log_probs_that_are_no_numbers_fail_the_request_only(bench: MakeBench) -> None:
    it = bench(1)
    finished = it.core._finished
    it.core._finished = lambda name, work: Finished(name, (1,), (float("nan"),), StopReason.LENGTH, 1, 0)  # type: ignore[method-assign]
    with pytest.raises(EngineError, match="not a number"):
        await it.generate(1).future
    it.core._finished = finished  # type: ignore[method-assign]
    assert (await it.generate(1).future).token_ids == (0,)


def test_turns_are_taken_in_the_order_of_asking() -> None:
    turns, order, asked = Turns(), list[int](), threading.Semaphore(0)

    def take(number: int) -> None:
        asked.release()
        with turns:
            order.append(number)

    threads = []
    with turns:
        for number in range(5):
            threads.append(threading.Thread(target=take, args=(number,)))
            threads[-1].start()
            asked.acquire()
            while turns._asked < number + 2:
                pass
    for thread in threads:
        thread.join(10)
    assert order == [0, 1, 2, 3, 4]


def test_weights_go_through_shared_memory_only_if_they_fit(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    assert folder_for(1000, tmp_path) == tmp_path
    assert folder_for(free, tmp_path) is None
    assert folder_for(1000, tmp_path / "missing") is None


@pytest.mark.parametrize("architecture", ["qwen3", "llama"])
def test_weights_must_be_exactly_the_models(
    tmp_path_factory: pytest.TempPathFactory, architecture: str
) -> None:
    folder = make_tiny_checkpoint(tmp_path_factory.mktemp(architecture), architecture=architecture)
    model = empty_model(folder)
    tensors = {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}
    tied = bool(model.config.tie_word_embeddings)
    assert tied == (architecture == "qwen3")
    assert (tensors, tied) == ((shape := read_shape(folder)).tensors(), shape.tied_embeddings)
    limits = Limits(1, 1, tensors, tied)
    weights = {name: torch.empty(shape, device="meta") for name, shape in tensors.items()}
    limits.check_weights(weights)
    without = {name: tensor for name, tensor in weights.items() if name != "lm_head.weight"}
    if tied:
        limits.check_weights(without)
    else:
        with pytest.raises(EngineError, match=r"1 missing \['lm_head\.weight'\]"):
            limits.check_weights(without)
    with pytest.raises(EngineError, match=r"1 unexpected \['more'\]"):
        limits.check_weights({**weights, "more": torch.empty(1)})
    with pytest.raises(EngineError, match=r"model\.norm\.weight has shape \(3,\), the model needs \(64,\)"):
        limits.check_weights({**weights, "model.norm.weight": torch.empty(3)})
