"""The learner: one optimiser step per batch of samples.

Paper, appendix "OPD Optimization" and Table "Training hyperparameters": AdamW with a constant learning rate,
gradient clipping, one epoch per batch, bfloat16 autocast over float32 master weights. The learner draws no
random numbers, so equal samples give equal weights. It does not choose samples and does not talk to engines.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from actfirst.errors import CheckpointError, UpdateError
from actfirst.learning.forward import check_architecture, logprobs, supervised_states
from actfirst.learning.loss import LossConfig, LossStats, surrogate_loss
from actfirst.learning.packing import Layout, lay_out, micro_batches
from actfirst.learning.samples import check_samples
from actfirst.records import TurnSample, UpdateStats

# Logits are made for this many (token, vocabulary entry) pairs at a time: 128 MB in float32.
_LOGITS_AT_ONCE = 1 << 25

# transformers fills in a size that config.json leaves out, and builds a model of many gigabytes.
_SIZES = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads")


@dataclass(frozen=True, slots=True)
class LearnerOptions:
    """How to update; the defaults are the paper's, but for precision. `threads` 0 leaves torch's setting."""

    lr: float = 1e-6
    betas: tuple[float, float] = (0.9, 0.999)
    weight_decay: float = 0.01
    grad_clip: float = 1.0
    token_budget: int = 16384
    precision: Literal["float32", "bfloat16"] = "float32"
    loss: LossConfig = field(default_factory=LossConfig)
    device: str = "cpu"
    threads: int = 0


@dataclass(frozen=True, slots=True)
class LearnerState:
    """Everything the next update depends on. `optimizer` maps "<moment>.<parameter>" to a tensor."""

    version: int
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]


class Learner:
    """Trains the model of a checkpoint folder. Not thread-safe: one update at a time."""

    def __init__(self, folder: Path, options: LearnerOptions) -> None:
        self.source = folder
        self.options = options
        self.version = 0
        self._model = _open_model(folder, options.device)
        self._parameters: dict[str, torch.nn.Parameter] = dict(self._model.named_parameters())
        self._optimizer = torch.optim.AdamW(
            self._parameters.values(),
            lr=options.lr,
            betas=options.betas,
            weight_decay=options.weight_decay,
            fused=True,
        )

    def update(self, samples: Sequence[TurnSample]) -> UpdateStats:
        """One optimiser step on the mean over `samples`; raises UpdateError before it touches anything."""
        started = time.perf_counter()
        check_samples(samples, self._model.config.vocab_size)
        with _torch_threads(self.options.threads):
            batches = micro_batches(samples, self.options.token_budget)
            sums, rows = LossStats(), 0
            for batch in batches:
                layout = lay_out(batch, len(samples), self.options.loss, self.options.device)
                sums, rows = sums + self._backward(layout), rows + len(layout.token_U)
            norm = float(torch.nn.utils.clip_grad_norm_(self._parameters.values(), self.options.grad_clip))
            if not torch.tensor((sums.loss, norm)).isfinite().all():
                self._refuse(samples)
            self._optimizer.step()
            self._optimizer.zero_grad(set_to_none=True)
        self.version += 1
        tokens = sum(len(sample.prompt_ids) + len(sample.token_ids) for sample in samples)
        return UpdateStats(
            loss=sums.loss,
            reverse_kl=sums.reverse_kl / max(sums.tokens, 1),
            grad_norm=norm,
            clip_fraction=sums.clipped / max(sums.tokens, 1),
            tokens=tokens,
            supervised_tokens=sums.tokens,
            samples=len(samples),
            seconds=time.perf_counter() - started,
            extra=_extra(sums, len(batches), rows),
        )

    def weights(self) -> Mapping[str, Tensor]:
        """The weights under their Hugging Face names. They change with the next update."""
        weights: dict[str, Tensor] = self._model.state_dict()
        return weights

    def state(self) -> LearnerState:
        """What `restore` needs for an exact continuation. Shares memory with the learner."""
        optimizer = {
            f"{moment}.{name}": value
            for name, parameter in self._parameters.items()
            for moment, value in self._optimizer.state.get(parameter, {}).items()
        }
        weights = {name: parameter.detach() for name, parameter in self._parameters.items()}
        return LearnerState(self.version, weights, optimizer)

    def restore(self, state: LearnerState) -> None:
        """Continue where `state` was taken. The options stay this learner's own."""
        if state.weights.keys() != self._parameters.keys():
            raise CheckpointError("the checkpoint is one of another model: the names of its weights differ")
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(state.weights[name])
        moments: dict[int, dict[str, Tensor]] = {}
        numbers = {name: number for number, name in enumerate(self._parameters)}
        for key, value in state.optimizer.items():
            moment, name = key.split(".", 1)
            moments.setdefault(numbers[name], {})[moment] = value.clone()
        groups = self._optimizer.state_dict()["param_groups"]
        self._optimizer.load_state_dict({"state": moments, "param_groups": groups})
        self.version = state.version

    def _backward(self, layout: Layout) -> LossStats:
        """Add the gradient of one micro-batch.

        The loss is a sum over tokens with known factors, so the head goes back chunk by chunk and the logits of
        one chunk at a time exist; the rest of the model goes back once, from the collected gradient.
        """
        chunk = max(1, _LOGITS_AT_ONCE // self._model.config.vocab_size)
        sums = LossStats()
        with self._autocast():
            state_NH = supervised_states(self._model, layout)
        leaf_NH = state_NH.detach().requires_grad_()
        streams = (leaf_NH, layout.target_N, layout.behaviour_N, layout.teacher_N, layout.share_N)
        for state, target, behaviour, teacher, share in zip(*(torch.split(s, chunk) for s in streams)):
            with self._autocast():
                logp = logprobs(self._model, state, target)
            loss, stats = surrogate_loss(logp, behaviour, teacher, share, self.options.loss)
            loss.backward()  # type: ignore[no-untyped-call]
            sums = sums + stats
        state_NH.backward(leaf_NH.grad)  # type: ignore[no-untyped-call]
        return sums

    def _autocast(self) -> torch.autocast:
        device = torch.device(self.options.device).type
        return torch.autocast(device, torch.bfloat16, enabled=self.options.precision == "bfloat16")

    def _refuse(self, samples: Sequence[TurnSample]) -> None:
        """Find the samples whose own loss or gradient is not finite, and name them."""
        guilty = []
        for sample in (sample for sample in samples if any(sample.mask)):
            self._optimizer.zero_grad(set_to_none=True)
            stats = self._backward(lay_out([sample], len(samples), self.options.loss, self.options.device))
            norm = torch.nn.utils.get_total_norm(
                [p.grad for p in self._parameters.values() if p.grad is not None]
            )
            if not (norm.isfinite() and torch.tensor(stats.loss).isfinite()):
                guilty.append(sample.id)
        self._optimizer.zero_grad(set_to_none=True)
        named = ", ".join(guilty[:8]) + (f" and {len(guilty) - 8} more" if len(guilty) > 8 else "")
        raise UpdateError(
            f"update {self.version + 1} was not made: the loss or the gradient is not finite; "
            + (f"samples: {named}" if guilty else "no single sample is the cause, only their sum")
            + ". If every sample is named, the weights are broken: resume from an earlier checkpoint"
        )


def _open_model(folder: Path, device: str) -> Any:
    from transformers import AutoConfig, AutoModelForCausalLM

    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder} holds no config.json: give the folder of a Hugging Face checkpoint")
    try:
        check_architecture(AutoConfig.from_pretrained(folder, local_files_only=True))
        stated = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if missing := [key for key in _SIZES if key not in stated]:
            raise CheckpointError(f"{folder / 'config.json'} does not say {', '.join(missing)}; copy it again")
        with _no_progress_bar():
            model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, local_files_only=True)
    except (CheckpointError, MemoryError):
        raise
    except Exception as error:  # transformers has no type of its own for a broken file
        raise CheckpointError(
            f"{folder} is no whole checkpoint: {type(error).__name__}: {error}; copy it again"
        ) from error
    # No dropout: the policy that is trained is the policy that was sampled.
    return model.to(device).eval()


@contextmanager
def _no_progress_bar() -> Iterator[None]:
    """transformers draws one on standard error while it loads; the command line draws its own."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()


@contextmanager
def _torch_threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    if count:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        if count:
            torch.set_num_threads(before)


def _extra(sums: LossStats, micro_batch_count: int, rows: int) -> dict[str, float]:
    tokens = max(sums.tokens, 1)
    return {
        "dual_clip_fraction": sums.dual_clipped / tokens,
        "ratio_mean": sums.ratio / tokens if sums.tokens else 1.0,
        "ratio_min": sums.ratio_min if sums.tokens else 1.0,
        "ratio_max": sums.ratio_max if sums.tokens else 1.0,
        "micro_batches": float(micro_batch_count),
        "computed_tokens": float(rows),
    }
