"""Supervised fine-tuning on (prompt ids, response ids) pairs: how a teacher, or a student to begin with, is made.

Plain next-token cross-entropy, averaged over the response tokens of a batch (prompt tokens count only where
`prompt_weight` says so). Logits are computed only where they are needed, micro-batches are grouped by length, and
a long run continues exactly where it was stopped. Not here: where the pairs come from, and any other loss.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch.nn import functional as F

from actfirst.errors import CheckpointError, ConfigError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

STATE_FILE = "sft_state.pt"


@dataclass(frozen=True, slots=True)
class Example:
    """One training pair. Any sequence of ids will do; `array("H")` keeps large sets small."""

    prompt_ids: Sequence[int]
    response_ids: Sequence[int]

    @property
    def length(self) -> int:
        return len(self.prompt_ids) + len(self.response_ids)


@dataclass(frozen=True, slots=True)
class SftSettings:
    """How to train. The learning rate warms up, then stays or falls by a cosine to `final_rate` of itself."""

    steps: int
    batch_size: int = 64
    learning_rate: float = 1e-3
    warmup: int = 50
    schedule: Literal["cosine", "constant"] = "cosine"
    final_rate: float = 0.1
    betas: tuple[float, float] = (0.9, 0.98)
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    prompt_weight: float = 0.0
    token_budget: int = 8192
    precision: Literal["float32", "bfloat16"] = "float32"
    seed: int = 0
    save_every: int = 200

    def __post_init__(self) -> None:
        if min(self.steps, self.batch_size, self.token_budget, self.save_every) < 1:
            raise ConfigError("steps, batch_size, token_budget and save_every must be at least 1")

    def rate(self, step: int) -> float:
        """The learning rate of update `step`, counted from 0."""
        if step < self.warmup:
            return self.learning_rate * (step + 1) / self.warmup
        if self.schedule == "constant":
            return self.learning_rate
        done = (step - self.warmup) / max(1, self.steps - self.warmup)
        fall = 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
        return self.learning_rate * (self.final_rate + (1.0 - self.final_rate) * fall)


@dataclass(frozen=True, slots=True)
class SftStep:
    """What one update reports: loss per response token, tokens seen (padding not counted), norm, seconds."""

    step: int
    loss: float
    tokens: int
    grad_norm: float
    rate: float
    seconds: float


@dataclass(frozen=True, slots=True)
class SftResult:
    """A finished run: the loss of every update, and tokens and seconds in all, earlier parts included."""

    losses: tuple[float, ...]
    tokens: int
    seconds: float


def fine_tune(
    model: PreTrainedModel,
    examples: Sequence[Example],
    settings: SftSettings,
    *,
    folder: Path | None = None,
    on_step: Callable[[SftStep], None] | None = None,
) -> SftResult:
    """Train `model` in place. With a `folder`, progress is kept there and a stopped run is continued."""
    if not examples:
        raise ConfigError("nothing to fine-tune on: there are no examples")
    optimizer = torch.optim.AdamW(
        model.parameters(),
        lr=settings.learning_rate,
        betas=settings.betas,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    run = _fingerprint(settings, examples)
    losses, tokens, seconds = _resume(folder, run, model, optimizer)
    model.train()
    for step in range(len(losses), settings.steps):
        for group in optimizer.param_groups:
            group["lr"] = settings.rate(step)
        done = _update(model, optimizer, _batch(examples, settings, step), settings, step)
        losses.append(done.loss)
        tokens += done.tokens
        seconds += done.seconds
        if on_step is not None:
            on_step(done)
        if folder is not None and ((step + 1) % settings.save_every == 0 or step + 1 == settings.steps):
            _save(folder, run, model, optimizer, losses, tokens, seconds)
    model.eval()
    return SftResult(tuple(losses), tokens, seconds)


def micro_batches(examples: Sequence[Example], token_budget: int) -> Iterator[list[Example]]:
    """Groups of similar length whose padded size is within the budget (a single longer example goes alone)."""
    group: list[Example] = []
    for example in sorted(examples, key=lambda e: e.length):
        if group and example.length * (len(group) + 1) > token_budget:
            yield group
            group = []
        group.append(example)
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class _Batch:
    """Padded ids, and the flat places whose next token counts, with those tokens and their weights."""

    ids_BT: torch.Tensor
    places_N: torch.Tensor
    targets_N: torch.Tensor
    weights_N: torch.Tensor


def _collate(group: Sequence[Example], prompt_weight: float) -> _Batch:
    width = max(example.length for example in group)
    ids_BT = np.zeros((len(group), width), dtype=np.int64)
    weights_BT = np.zeros((len(group), width), dtype=np.float32)
    for row, example in enumerate(group):
        split, end = len(example.prompt_ids), example.length
        ids_BT[row, :split] = example.prompt_ids
        ids_BT[row, split:end] = example.response_ids
        # The logits at a place are about the token after it.
        weights_BT[row, : split - 1] = prompt_weight
        weights_BT[row, split - 1 : end - 1] = 1.0
    flat = np.flatnonzero(weights_BT)
    return _Batch(
        torch.from_numpy(ids_BT),
        torch.from_numpy(flat),
        torch.from_numpy(ids_BT.reshape(-1)[flat + 1]),
        torch.from_numpy(weights_BT.reshape(-1)[flat]),
    )


def _logits(model: PreTrainedModel, batch: _Batch, settings: SftSettings) -> torch.Tensor:
    with _autocast(settings):
        # Padding is on the right and attention is causal: no place that counts can see it, so no mask is needed.
        hidden_BTH = model.get_decoder()(input_ids=batch.ids_BT, use_cache=False).last_hidden_state
        logits_NV: torch.Tensor = model.get_output_embeddings()(hidden_BTH.flatten(0, 1)[batch.places_N])
    return logits_NV.float()


def _autocast(settings: SftSettings) -> AbstractContextManager[None]:
    return torch.autocast("cpu", torch.bfloat16, enabled=settings.precision == "bfloat16")


def _update(
    model: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
    examples: Sequence[Example],
    settings: SftSettings,
    step: int,
) -> SftStep:
    started = time.perf_counter()
    responses = sum(len(example.response_ids) for example in examples)
    prompts = sum(len(example.prompt_ids) - 1 for example in examples)
    whole = responses + settings.prompt_weight * prompts
    loss = 0.0
    optimizer.zero_grad(set_to_none=True)
    for group in micro_batches(examples, settings.token_budget):
        batch = _collate(group, settings.prompt_weight)
        losses_N = F.cross_entropy(_logits(model, batch, settings), batch.targets_N, reduction="none")
        (torch.dot(losses_N, batch.weights_N) / whole).backward()  # type: ignore[no-untyped-call]
        loss += float(losses_N.detach()[batch.weights_N == 1.0].sum()) / responses
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), settings.grad_clip)
    optimizer.step()
    spent = time.perf_counter() - started
    return SftStep(step, loss, responses + prompts, float(norm), settings.rate(step), spent)


def _batch(examples: Sequence[Example], settings: SftSettings, step: int) -> list[Example]:
    """The examples of one update. Every epoch is a fresh permutation that depends on the seed alone."""
    first = step * settings.batch_size
    chosen: list[Example] = []
    for epoch in range(first // len(examples), (first + settings.batch_size - 1) // len(examples) + 1):
        order = np.random.default_rng((settings.seed, epoch)).permutation(len(examples))
        start = epoch * len(examples)
        chosen += [
            examples[i] for i in order[max(0, first - start) : max(0, first + settings.batch_size - start)]
        ]
    return chosen


def _fingerprint(settings: SftSettings, examples: Sequence[Example]) -> str:
    """Identifies a run by its settings and its data, so that no run continues another one."""
    digest = hashlib.blake2b(json.dumps(asdict(settings), sort_keys=True).encode(), digest_size=12)
    for example in examples:
        digest.update(np.asarray(example.prompt_ids, dtype=np.int32).tobytes())
        digest.update(b"|" + np.asarray(example.response_ids, dtype=np.int32).tobytes() + b"\n")
    return digest.hexdigest()


def _save(
    folder: Path,
    run: str,
    model: PreTrainedModel,
    optimizer: torch.optim.Optimizer,
    losses: list[float],
    tokens: int,
    seconds: float,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    state = {
        "run": run,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "losses": losses,
        "tokens": tokens,
        "seconds": seconds,
    }
    partial = folder / f"{STATE_FILE}.part"
    torch.save(state, partial)
    os.replace(partial, folder / STATE_FILE)


def _resume(
    folder: Path | None, run: str, model: PreTrainedModel, optimizer: torch.optim.Optimizer
) -> tuple[list[float], int, float]:
    path = folder / STATE_FILE if folder is not None else None
    if path is None or not path.is_file():
        return [], 0, 0.0
    state = torch.load(path, weights_only=True)
    if state["run"] != run:
        raise CheckpointError(
            f"{path} belongs to a run with other settings or other data; remove it, or choose another folder"
        )
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return list(state["losses"]), int(state["tokens"]), float(state["seconds"])
