"""The embedded engine: which models it runs, what its requests are, and how its parts are put together."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from collections.abc import Sequence as Rows
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from pathlib import Path

import torch

from actfirst.engines.base import Priority, Sampling
from actfirst.engines.embedded.general import GeneralModel, GeneralWeights
from actfirst.engines.embedded.kv_cache import KVCache
from actfirst.engines.embedded.model import Model
from actfirst.engines.embedded.prefix_cache import PrefixCache, block_keys
from actfirst.engines.embedded.runner import Runner
from actfirst.engines.embedded.scheduler import Places, Scheduler
from actfirst.engines.embedded.sequence import Generation, Scoring, Sequence, Stopping, Uniforms
from actfirst.engines.embedded.versions import Versions
from actfirst.engines.embedded.weights import PackedWeights
from actfirst.engines.stepped import IdArray, Limits, Settings, SteppedEngine, of_student
from actfirst.engines.stepping import Counters, SteppingLoop
from actfirst.errors import EngineError
from actfirst.models.device import compute_device
from actfirst.models.files import ModelFiles, read_files, read_weights
from actfirst.models.folder import read_config
from actfirst.models.general import Model as Transformer
from actfirst.models.general import open_general
from actfirst.models.shapes import EMBEDDING, HEAD, ModelShape, hand_written
from actfirst.records import Scores

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class EmbeddedEngine(SteppedEngine[Sequence]):
    def __init__(
        self,
        files: ModelFiles,
        weights: Mapping[str, torch.Tensor],
        settings: Settings,
        general: Transformer | None = None,
    ) -> None:
        """`weights` are a state dict with the names of the Hugging Face model; they are copied. With `general`, its
        forward pass is used instead of the hand-written one."""
        shape = files.shape
        tensors = shape.tensors() if general is None else _tensors(general)
        limits = Limits(shape.max_positions, shape.vocab_size, tensors, shape.tied_embeddings)
        limits.check_weights(weights)
        self._stopping = Stopping(files.eos_ids, files.tokens)
        self._caching = settings.prefix_caching
        device = compute_device(settings.device, "device")
        with _computing(device):
            self._versions = _build(shape, self._stopping, settings, general)
            self._versions.install(weights, 0)
        loop = SteppingLoop(
            self._versions,
            name="embedded-engine",
            threads=settings.threads or torch.get_num_threads(),
            within=_computing(device),
        )
        super().__init__(loop, limits)

    @classmethod
    def from_pretrained(cls, folder: Path, settings: Settings, *, general: bool = False) -> EmbeddedEngine:
        """From a transformers checkpoint folder: config.json, safetensors (sharded or not), tokenizer.json.

        `general` takes the model's own forward pass also where there is a hand-written one.
        """
        if hand_written(read_config(folder)) and not general:
            return cls(read_files(folder), read_weights(folder), settings)
        device = compute_device(settings.device, "device")
        files, model = read_files(folder), open_general(folder, DTYPES[settings.dtype]).to(device)
        return cls(files, dict(model.named_parameters()), settings, model)

    def memory(self) -> int:
        """Bytes that weights, the slots of sequences and the prefix cache hold now."""
        return self._versions.memory()

    def _generating(self, prompt: IdArray, sampling: Sampling, priority: Priority) -> Generation:
        if sampling.stop and self._stopping.tokens is None:
            raise EngineError("stop strings need the checkpoint's tokenizer.json, which is missing")
        drafts = (*sampling.draft.possible, sampling.draft.likely) if sampling.draft is not None else ()
        if any(not 0 <= token < self._limits.vocabulary for draft in drafts for token in draft):
            raise EngineError(f"a draft token does not fit a vocabulary of {self._limits.vocabulary}")
        request = Generation(
            ids=prompt,
            prompt_length=len(prompt),
            priority=priority,
            keys=self._keys(prompt),
            future=asyncio.get_running_loop().create_future(),
            sampling=sampling,
            watch=self._stopping.watch(sampling.stop),
            uniforms=Uniforms(sampling.seed),
        )
        request.draft()
        return request

    async def scores(self, prompt_ids: Rows[int], token_ids: Rows[int], alternatives: int) -> Scores:
        """As `score`, and the most likely tokens at each place, found in the logits that are there anyway."""
        return await self._scores(prompt_ids, token_ids, min(alternatives, self._limits.vocabulary))

    def _scoring(self, ids: IdArray, begin: int, alternatives: int) -> Scoring:
        return Scoring(
            ids=ids[:-1],
            prompt_length=begin,
            priority=Priority.FULL,
            keys=self._keys(ids[:begin]),
            future=asyncio.get_running_loop().create_future(),
            targets=ids[begin:],
            wanted=alternatives,
        )

    def _keys(self, prompt: IdArray) -> tuple[bytes, ...]:
        return block_keys(prompt) if self._caching else ()


@contextmanager
def _computing(device: str) -> Iterator[None]:
    """What the engine's tensors are made in: on the device, and without gradients."""
    with torch.inference_mode(), nullcontext() if device == "cpu" else torch.device(device):
        yield


def _tensors(model: Transformer) -> dict[str, tuple[int, ...]]:
    tensors = {name: tuple(parameter.shape) for name, parameter in model.named_parameters()}
    if EMBEDDING in tensors:
        tensors.setdefault(HEAD, tensors[EMBEDDING])  # tied: it may be among new weights too
    return tensors


def _build(shape: ModelShape, stopping: Stopping, settings: Settings, general: Transformer | None) -> Versions:
    """All parts but the thread, with memory for the weights but nothing in it."""
    student, dtype = of_student(settings), DTYPES[settings.dtype]

    def make(counters: Counters, places: Places) -> Runner:
        cache = KVCache(shape, dtype, max_slots=settings.max_concurrency, max_length=shape.max_positions)
        prefix = PrefixCache(cache, student.prefix_cache_tokens) if settings.prefix_caching else None
        scheduler = Scheduler(
            cache,
            prefix,
            places,
            max_prefill_tokens=settings.max_prefill_tokens,
            priority=student.priority,
            preempt=student.preempt,
        )
        return Runner(pass_over(cache), scheduler, prefix, stopping, counters)

    def pass_over(cache: KVCache) -> Model | GeneralModel:
        if general is None:
            return Model(PackedWeights(shape, dtype), cache)
        # Two sets of weights beside each other need two models.
        return GeneralModel(
            GeneralWeights(shape, deepcopy(general) if student.swap == "beside" else general), cache
        )

    return Versions(make, settings.max_concurrency, student.swap)
