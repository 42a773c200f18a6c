"""The module that calls vLLM (0.32): its LLMEngine, stepped by our thread, in this process or in its own.

`AsyncLLM` is not used: it cannot run inside this process (vLLM refuses), and with our own admission it would add
a second event loop without adding anything. In this process vLLM changes global state; that is undone here.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from actfirst.engines.stepped import Settings, of_student
from actfirst.engines.vllm.adapters import Shapes, engine_options, replace_adapters, request, zeros
from actfirst.engines.vllm.stderr import Teed, root_cause
from actfirst.engines.vllm.turns import Turns
from actfirst.engines.vllm.watch import watch
from actfirst.engines.vllm.work import Failed, Finished, Generating, Received, Refused, Scoring, Work
from actfirst.errors import EngineError
from actfirst.models.files import eos_ids
from actfirst.models.folder import read_config
from actfirst.records import StopReason

if TYPE_CHECKING:
    from vllm import SamplingParams
    from vllm.outputs import RequestOutput

PINNED = "0.32"
BACKEND = "actfirst"
"""Our weight transfer in vLLM's registry."""
INSTALL = "pip install 'actfirst[vllm]' on a machine with a GPU; docs/engines.md says how on a CPU"
_CPU_CACHE = 2**30  # bytes of keys and values where nothing is said: vLLM would take most of the memory
# Tokens of a block of keys; the 128 that vLLM takes on a CPU are longer than most turns: no prefix would be shared.
_CPU_BLOCK = 32
_SHARED_MEMORY = Path("/dev/shm")
_IN_THIS_PROCESS = Turns()
_GIVEN_UP = ("abort", "error")  # ends of a request that are no answer

# vLLM reads these when it is imported or starts a process. What a person has set stays.
_ENVIRONMENT = {
    "VLLM_LOGGING_LEVEL": "CRITICAL",  # a failure comes as an exception; vLLM also logs whole batches then
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # a fork of a process with running threads may hang
}


class VllmCore:
    """vLLM as `work.Core`."""

    def __init__(
        self, folder: Path, settings: Settings, own_process: bool, adapters: Shapes | None = None
    ) -> None:
        """`adapters`: the shapes of those that replace one another, where weights stay those of the folder."""
        self._own_process = own_process
        self._folder, self._adapters = folder, adapters or {}
        self._priority, self._seeds = of_student(settings).priority, of_student(settings).seeds
        self._caching = settings.prefix_caching
        self._enforce_eager = settings.vllm.enforce_eager
        # All ids that end a sequence are ours to name: vLLM's own choice depends on more than the checkpoint.
        self._eos_ids = sorted(eos_ids(folder))
        self._turns: AbstractContextManager[None] = nullcontext() if own_process else _IN_THIS_PROCESS
        self._errors = Teed()
        with self._turns, _undone(own_process), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about vLLM's use of torch
            self._engine = _open(folder, settings, own_process, self._errors, engine_options(self._adapters))
            self._engine.collective_rpc("init_weight_transfer_engine", kwargs={"init_info": {}})
            if self._adapters:
                self._replace_adapters(zeros(self._adapters))
        if own_process:
            watch(self._engine.engine_core)
            self._engine.collective_rpc("end_with", args=(os.getpid(),))
        config = self._engine.model_config
        # The newer model runner computes log-probs of given places only; the other one those of the whole prompt.
        self._places = bool(self._engine.vllm_config.use_v2_model_runner)
        self.max_positions = int(config.max_model_len)
        self.vocab_size = int(config.get_vocab_size())
        self._scoring: dict[str, Scoring] = {}

    def start(self, name: str, work: Work) -> None:
        from vllm import TokensPrompt
        from vllm.exceptions import VLLMClientError

        # A sequence of full length leaves no place for the one token that vLLM must generate. So the last token is
        # not part of the prompt: its log-prob is asked for at the place where vLLM generates.
        prompt = work.prompt if isinstance(work, Generating) else work.ids[:-1]
        if isinstance(work, Scoring):
            self._scoring[name] = work
        try:
            params = self._generation(work) if isinstance(work, Generating) else scoring(work, self._places)
            (given,) = self._engine.renderer.render_cmpl([TokensPrompt(prompt_token_ids=list(prompt))])
            self._engine.add_request(
                name,
                given,
                params,
                lora_request=request() if self._adapters else None,
                priority=int(work.priority) if self._priority else 0,
            )
        except (
            VLLMClientError,
            ValueError,
        ) as error:  # the first is what vLLM raises for a fault of the request
            self._scoring.pop(name, None)
            raise Refused(str(error)) from error

    def cancel(self, name: str) -> None:
        self._scoring.pop(name, None)
        self._engine.abort_request([name])

    def step(self) -> list[Finished | Failed]:
        with self._explained(), self._turns, self._eager():
            outputs = self._engine.step()
        return [self._finished(output) for output in outputs if output.finished]

    def install(self, weights: Mapping[str, torch.Tensor]) -> None:
        with self._explained(), self._turns, self._eager(), self._paused():
            if self._adapters:
                self._replace_adapters(weights)
            else:
                self._replace_weights(weights)
            # Blocks that running requests hold cannot be forgotten: vLLM has to compute those requests' keys again.
            running = bool(self._engine.has_unfinished_requests())
            if (self._caching or not running) and not self._engine.reset_prefix_cache(running):
                raise EngineError("vLLM did not empty its prefix cache: it would serve keys of the old weights")

    def begin(self, method: str, *arguments: object) -> None:
        """Have each worker begin something (`worker.Extension.begin`) and go on with its steps meanwhile."""
        with self._explained():
            self._engine.collective_rpc("begin", args=(method, *arguments))

    def done(self) -> bool:
        """Whether all workers have done what they began; raises what one of them failed of."""
        with self._explained():
            said: list[str | None] = self._engine.collective_rpc("outcome")
        if failed := [one for one in said if one]:
            raise EngineError(failed[0])
        return None not in said

    def close(self) -> None:
        with self._turns:
            self._engine.engine_core.shutdown()

    def _replace_weights(self, weights: Mapping[str, torch.Tensor]) -> None:
        self._engine.collective_rpc("start_weight_update")
        if isinstance(weights, Received):
            self._send({"received": weights.version})
        elif self._own_process:
            self._send_by_file(weights)
        else:
            self._send({"tensors": list(weights.items())})
        self._engine.collective_rpc("finish_weight_update")

    def _replace_adapters(self, weights: Mapping[str, torch.Tensor]) -> None:
        size = sum(tensor.nbytes for tensor in weights.values())
        try:
            replace_adapters(self._engine, self._folder, weights, folder_for(size))
        except (ValueError, RuntimeError) as error:
            raise EngineError(
                f'vLLM does not take adapters of this model ({error}); set learner.adapter_sync = "merged"'
            ) from error

    def _send(self, update: Mapping[str, object]) -> None:
        """`update` is `worker.NewWeights`, as vLLM wants it."""
        self._engine.collective_rpc("update_weights", kwargs={"update_info": dict(update)})

    def _send_by_file(self, weights: Mapping[str, torch.Tensor]) -> None:
        from safetensors.torch import save_file

        # Tied weights share memory, which the file format refuses: each tensor is written for itself.
        plain = {name: tensor.detach().cpu().clone() for name, tensor in weights.items()}
        size = sum(tensor.nbytes for tensor in plain.values())
        with tempfile.TemporaryDirectory(dir=folder_for(size)) as folder:
            path = str(Path(folder) / "weights.safetensors")
            save_file(plain, path)
            self._send({"path": path})

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Say what a process of vLLM's own died of: vLLM says only that it did."""
        from vllm.v1.engine.exceptions import EngineDeadError

        try:
            yield
        except EngineDeadError as error:
            if cause := root_cause(self._errors.text()):
                raise EngineError(f"vLLM's process ended by {cause}") from error
            raise

    @contextmanager
    def _paused(self) -> Iterator[None]:
        """A process of vLLM's own steps by itself: it must not between two parts of an update."""
        core = self._engine.engine_core
        pause = self._own_process and self._engine.has_unfinished_requests()
        if pause:
            core.call_utility("pause_scheduler", "keep", False)
        yield
        if pause:
            core.call_utility("resume_scheduler")

    def _eager(self) -> AbstractContextManager[object]:
        """vLLM compiles a helper at its first use even with enforce_eager, which takes 10 to 40 s on a CPU."""
        if self._own_process or not self._enforce_eager:
            return nullcontext()
        stance: AbstractContextManager[object] = torch.compiler.set_stance("force_eager")
        return stance

    def _generation(self, work: Generating) -> SamplingParams:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind

        sampling = work.sampling
        return SamplingParams(
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            top_p=sampling.top_p,
            top_k=sampling.top_k,
            seed=None if sampling.seed is None or not self._seeds else sampling.seed % 2**63,
            stop=list(sampling.stop),
            stop_token_ids=[] if sampling.ignore_eos else list(self._eos_ids),
            ignore_eos=True,
            logprobs=0,
            flat_logprobs=True,
            detokenize=bool(sampling.stop),
            skip_special_tokens=False,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )

    def _finished(self, output: RequestOutput) -> Finished | Failed:
        (completion,) = output.outputs
        if completion.finish_reason in _GIVEN_UP:
            self._scoring.pop(output.request_id, None)
            return Failed(
                output.request_id, f"{completion.finish_reason} ({completion.stop_reason or 'no reason given'})"
            )
        cached = output.num_cached_tokens or 0
        prefilled = len(output.prompt_token_ids or ()) - cached
        work = self._scoring.pop(output.request_id, None)
        if work is not None:
            return Finished(
                output.request_id, (), scored(work, output, self._places), StopReason.LENGTH, prefilled, cached
            )
        return Finished(
            output.request_id,
            tuple(completion.token_ids),
            tuple(completion.logprobs.logprobs),
            _stop_reason(completion.finish_reason, completion.stop_reason),
            prefilled,
            cached,
        )


def folder_for(size: int, memory: Path = _SHARED_MEMORY) -> Path | None:
    """Shared memory if it has room for so many bytes (containers often give it 64 MB), else None: the usual place."""
    return memory if memory.is_dir() and shutil.disk_usage(memory).free > 1.2 * size else None


def on_cpu() -> bool:
    """Whether vLLM would compute on the CPU here."""
    _import()
    from vllm.platforms import current_platform

    return bool(current_platform.is_cpu())


def _import() -> None:
    for name, value in _ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    try:
        import vllm
    except ImportError as error:
        raise EngineError(f"vLLM is not installed ({error}): {INSTALL}") from error
    if not vllm.__version__.startswith(PINNED):
        raise EngineError(f"vLLM {vllm.__version__} is installed, {PINNED} is needed: {INSTALL}")


def engine_args(
    folder: Path, settings: Settings, own_process: bool, more: Mapping[str, Any] | None = None
) -> Any:
    """What vLLM is asked for; `more` is for adapters."""
    from vllm import EngineArgs, envs
    from vllm.config import WeightTransferConfig
    from vllm.platforms import current_platform

    options, cpu = settings.vllm, bool(current_platform.is_cpu())
    cache = int(options.kv_cache_gib * 2**30) or (_CPU_CACHE if cpu else None)
    # After a part of a prompt vLLM's older model runner winds the generator of a request with a seed back, which only
    # those of GPUs can: on a CPU the engine would die. So there a prompt is computed whole, and a step must hold the
    # longest.
    whole = cpu and not envs.VLLM_USE_V2_MODEL_RUNNER
    longest = (options.max_model_len or int(read_config(folder)["max_position_embeddings"])) if whole else 0
    return EngineArgs(
        model=str(folder),
        dtype=settings.dtype,
        max_model_len=options.max_model_len or None,
        max_num_seqs=settings.max_concurrency,
        max_num_batched_tokens=max(settings.max_prefill_tokens, settings.max_concurrency, longest),
        enable_chunked_prefill=not whole,
        enable_prefix_caching=settings.prefix_caching,
        block_size=_CPU_BLOCK if cpu else None,
        enforce_eager=options.enforce_eager,
        gpu_memory_utilization=options.gpu_memory_utilization,
        kv_cache_memory_bytes=cache,
        tensor_parallel_size=options.tensor_parallel,
        distributed_executor_backend=None if own_process else "uni",
        scheduling_policy="priority" if of_student(settings).priority else "fcfs",
        logprobs_mode="processed_logprobs",
        worker_extension_cls="actfirst.engines.vllm.worker.Extension",
        weight_transfer_config=WeightTransferConfig(backend=BACKEND),
        generation_config="vllm",  # sampling comes from the request alone, never from the checkpoint
        use_tqdm_on_load=False,
        disable_log_stats=True,
        **(more or {}),
    )


def _open(folder: Path, settings: Settings, own_process: bool, errors: Teed, more: Mapping[str, Any]) -> Any:
    _import()
    from vllm.v1.engine.llm_engine import LLMEngine
    from vllm.v1.executor import Executor

    import actfirst.engines.vllm.worker  # noqa: F401 (makes the backend known)

    try:
        config = engine_args(folder, settings, own_process, more).create_engine_config()
        with errors.started() if own_process else nullcontext():
            return LLMEngine(config, Executor.get_class(config), log_stats=False, multiprocess_mode=own_process)
    except Exception as error:  # vLLM raises all kinds; each means that this engine cannot be had
        cause = root_cause(errors.text()) or " ".join(str(error).split())
        raise EngineError(f"vLLM cannot open {folder}: {cause}") from error


def scoring(work: Scoring, places: bool) -> SamplingParams:
    """What is asked to score with: `places` where vLLM computes log-probs of given places of a prompt only."""
    from vllm import SamplingParams
    from vllm.sampling_params import RequestOutputKind

    within = work.ids[work.begin : -1]  # the last token is asked for at the place where vLLM generates
    return SamplingParams(
        max_tokens=1,
        temperature=1.0,
        prompt_logprobs=None if places else 0,
        prompt_logprob_token_ids=[[token] for token in within] if places and within else None,
        prompt_logprob_start=work.begin - 1 if places and within else None,
        logprob_token_ids=[work.ids[-1]],
        ignore_eos=True,
        flat_logprobs=True,
        detokenize=False,
        output_kind=RequestOutputKind.FINAL_ONLY,
    )


def scored(work: Scoring, output: RequestOutput, places: bool) -> tuple[float, ...]:
    """The log-probs that vLLM answered with."""
    last: Any = output.outputs[0].logprobs
    if not places:
        prompt: Any = output.prompt_logprobs
        within = prompt.logprobs[work.begin - 1 :]
    elif work.begin < len(work.ids) - 1:
        rows: Any = output.prompt_token_id_logprobs
        within = [float(row[0]) for row in rows]
    else:
        within = []
    return (*within, last.logprobs[last.token_ids.index(work.ids[-1])])


def _stop_reason(finish: str | None, stop: int | str | None) -> StopReason:
    if finish == "length":
        return StopReason.LENGTH
    return StopReason.STOP_STRING if isinstance(stop, str) else StopReason.EOS


@contextmanager
def _undone(own_process: bool) -> Iterator[None]:
    """Undo what starting vLLM does to the process: random states, the number of threads, how it is set."""
    if own_process:
        yield
        return
    name = "VLLM_ENABLE_V1_MULTIPROCESSING"  # read from the environment where the executor is chosen
    before = os.environ.get(name)
    python, numpy, torch_state = random.getstate(), np.random.get_state(), torch.random.get_rng_state()
    set_threads, threads = torch.set_num_threads, torch.get_num_threads()
    os.environ[name] = "0"
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before
        torch.set_num_threads = set_threads  # vLLM puts a function in its place that does nothing
        set_threads(threads)
        random.setstate(python)
        np.random.set_state(numpy)
        torch.random.set_rng_state(torch_state)
