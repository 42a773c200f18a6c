"""The learner: one update per batch of samples.

Paper, appendix "OPD Optimization" and Table "Training hyperparameters": AdamW with a constant learning rate,
gradient clipping, one epoch per batch, bfloat16 autocast over float32 master weights. The learner draws no
random numbers, so equal samples give equal weights. It does not choose samples and does not talk to engines.
An update is one optimiser step; with `whole_batches` it is as many steps of `batch_size` as its samples give.
Where the weights lie on several ranks, `sharded.py` fills in what differs: the mathematics stays here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from actfirst.config.sections import LearnerSection
from actfirst.errors import CheckpointError, UpdateError
from actfirst.learning.adamw import AdamW
from actfirst.learning.average import AVERAGE, Average
from actfirst.learning.decoder import open_decoder
from actfirst.learning.forward import (
    LayerCall,
    decoder_layer,
    general_states,
    logprobs,
    logprobs_and_entropy,
    supervised_states,
)
from actfirst.learning.lora import add_adapters, merged, scaled
from actfirst.learning.loss import LossConfig, fetch, surrogate_loss, token_mean
from actfirst.learning.packing import Layout, lay_out, micro_batches
from actfirst.learning.pieces import PLAIN, Fused, Pieces
from actfirst.learning.samples import check_samples
from actfirst.learning.schedule import rate_of
from actfirst.learning.work import Batch, Work, extra_stats, fetched
from actfirst.models.folder import read_config
from actfirst.models.general import open_general
from actfirst.models.shapes import EMBEDDING, HEAD, hand_written, head_tokens
from actfirst.records import TurnSample, UpdateStats


@dataclass(frozen=True, slots=True)
class LearnerState:
    """Everything the next update depends on. `optimizer` maps "<moment>.<parameter>" to a tensor; the average of the
    weights, where one is kept, is such a moment.

    `weights` have Hugging Face names. Where adapters are trained they are merged in, and `adapters` holds them alone.
    """

    version: int
    weights: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    adapters: Mapping[str, Tensor] = field(default_factory=dict)


class Learner:
    """Trains the model of a checkpoint folder. Not thread-safe: one update at a time."""

    def __init__(
        self, folder: Path, settings: LearnerSection, device: str = "cpu", *, general: bool = False
    ) -> None:
        """`general` takes the model's own forward pass also where there is a hand-written one."""
        self.source = folder
        self.settings = settings
        self.device = device
        self.version = 0
        self._loss = LossConfig(
            settings.clip,
            settings.dual_clip,
            kl_weight=settings.kl_weight,
            entropy_weight=settings.entropy_weight,
        )
        self.general = general or not hand_written(read_config(folder))
        self.pieces = _pieces(settings, torch.device(device).type)
        self._model = self._open(folder)
        if self.general and settings.activation_checkpointing:
            _checkpoint_layers(self._model)
        if settings.adapter_rank:
            add_adapters(self._model, settings)
        self._vocabulary: int = self._model.config.get_text_config().vocab_size
        self.head_tokens = head_tokens(self._vocabulary, gpu=torch.device(device).type == "cuda")
        self._place()
        self._parameters: dict[str, torch.nn.Parameter] = {
            name: parameter for name, parameter in self._model.named_parameters() if parameter.requires_grad
        }
        self._optimizer = AdamW(
            self._parameters.values(), settings.learning_rate, settings.betas, settings.weight_decay
        )
        self._average = Average(self._parameters, settings.average)

    def _open(self, folder: Path) -> Any:
        """The model of a folder, in float32."""
        return open_general(folder, torch.float32) if self.general else open_decoder(folder)

    def update(self, samples: Sequence[TurnSample]) -> UpdateStats:
        """One optimiser step on the mean over `samples`, or several over parts of them in their order.

        Raises UpdateError before it touches anything; the fault of a later step leaves the steps before it.
        """
        return self._update(samples, rate_of(self.version, self.settings))

    def _update(self, samples: Sequence[TurnSample], rate: float) -> UpdateStats:
        self._optimizer.rate = rate
        started = time.perf_counter()
        check_samples(samples, self._vocabulary, anchored=self.settings.kl_weight > 0)
        size = self.settings.batch_size if self.settings.whole_batches else len(samples)
        with _torch_threads(self.settings.threads):
            steps = [self._step(samples[first : first + size]) for first in range(0, len(samples), size)]
        self._average.follow(self.version)
        self.version += 1
        work, norm = sum((work for work, _ in steps), Work()), fmean(norm for _, norm in steps)
        sums = work.sums
        tokens = sum(len(sample.prompt_ids) + len(sample.token_ids) for sample in samples)
        return UpdateStats(
            loss=sums.loss / len(steps),
            advantage=sums.advantage / max(sums.tokens, 1),
            grad_norm=norm,
            clip_fraction=sums.clipped / max(sums.tokens, 1),
            tokens=tokens,
            supervised_tokens=sums.tokens,
            samples=len(samples),
            seconds=time.perf_counter() - started,
            extra=extra_stats(work, self._loss, len(steps)),
        )

    def fit(self, samples: Sequence[TurnSample], rate: float) -> UpdateStats:
        """One step of supervised fine-tuning with this learning rate: see `sft.py` for what the samples say."""
        with self._likelihood():
            return self._update(samples, rate)

    @torch.no_grad()
    def measure(self, samples: Sequence[TurnSample]) -> float:
        """The loss that `fit` would report; nothing is changed."""
        check_samples(samples, self._vocabulary)
        with _torch_threads(self.settings.threads), self._likelihood():
            return self._gradient(samples).sums.loss

    def _step(self, samples: Sequence[TurnSample]) -> tuple[Work, float]:
        """One optimiser step; returns what was computed and the norm of its gradient."""
        if self.settings.aggregation == "token-mean":
            samples = token_mean(samples)
        work = self._gradient(samples)
        total = torch.nn.utils.clip_grad_norm_(self._parameters.values(), self.settings.grad_clip)
        norm = float(self._whole(total))
        if not torch.tensor((work.sums.loss, norm)).isfinite().all():
            self._refuse(samples)
        self._optimizer.step()
        self._optimizer.zero_grad()
        return work, norm

    def weights(self, *, averaged: bool = False) -> Mapping[str, Tensor]:
        """What engines get, by name. It changes with the next update."""
        return self._with_head(dict(self.for_engines(averaged=averaged)))

    def _with_head(self, weights: dict[str, Tensor]) -> dict[str, Tensor]:
        tied = self._model.config.tie_word_embeddings and EMBEDDING in weights
        return {**weights, HEAD: weights[EMBEDDING]} if tied else weights

    def for_engines(self, *, averaged: bool = False) -> Iterator[tuple[str, Tensor]]:
        """The weights under their Hugging Face names, or with `adapter_sync` = "alone" the adapters, scaled."""
        if not (self.settings.adapter_rank and self.settings.adapter_sync == "alone"):
            return self.named_weights(averaged=averaged)
        own: Mapping[str, Tensor] = (averaged and self._average.weights) or self._parameters
        return scaled(own, self.settings, self._whole)

    def named_weights(self, *, averaged: bool = False) -> Iterator[tuple[str, Tensor]]:
        """The weights one after the other, each once, also where two names share one. `averaged`: those that
        `learner.average` keeps; without it the same as ever."""
        parameters: dict[str, Tensor] = dict(self._model.named_parameters())
        return merged({**parameters, **(self._average.weights if averaged else {})}, self.settings, self._whole)

    def state(self) -> LearnerState:
        """What `restore` needs for an exact continuation. Shares memory with the learner."""
        optimizer = {name: self._whole(value) for name, value in self.moments().items()}
        return LearnerState(self.version, self.export(), optimizer, self.adapters())

    def restore(self, state: LearnerState) -> None:
        """Continue where `state` was taken. The settings stay this learner's own."""
        trained = state.adapters if self.settings.adapter_rank else state.weights
        if trained.keys() != self._parameters.keys() or bool(state.adapters) != bool(
            self.settings.adapter_rank
        ):
            raise CheckpointError("the checkpoint is one of another model: the names of its weights differ")
        with torch.no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(self._part(trained[name], parameter))
        self.set_moments(
            {
                key: self._part(value, self._parameters[key.split(".", 1)[1]])
                for key, value in state.optimizer.items()
            }
        )
        self.version = state.version

    def _place(self) -> None:
        """Bring the weights to where they are trained."""
        self._model.to(self.device)

    def _whole(self, tensor: Tensor) -> Tensor:
        """A tensor of the learner with all its parts."""
        return tensor.detach()

    def _part(self, whole: Tensor, parameter: Tensor) -> Tensor:
        """What belongs here of a stored tensor of `parameter`; a copy."""
        return whole.clone()

    def export(self, *, averaged: bool = False) -> dict[str, Tensor]:
        """The weights for a checkpoint, each once."""
        return dict(self.named_weights(averaged=averaged))

    def moments(self) -> dict[str, Tensor]:
        """The tensors of the optimiser and of the average as they lie here."""
        moments = {
            f"{moment}.{name}": value
            for name, parameter in self._parameters.items()
            for moment, value in self._optimizer.state.get(parameter, {}).items()
        }
        return {**moments, **self._average.moments()}

    def set_moments(self, moments: Mapping[str, Tensor]) -> None:
        """Take back what `moments` gave."""
        of_each: dict[str, dict[str, Tensor]] = {}
        average: dict[str, Tensor] = {}
        for key, value in moments.items():
            moment, name = key.split(".", 1)
            if moment == AVERAGE:
                average[name] = value
            else:
                of_each.setdefault(name, {})[moment] = value
        self._average.begin(average)
        for name, state in of_each.items():
            self._optimizer.restore(self._parameters[name], state)

    def adapters(self) -> dict[str, Tensor]:
        """The adapters for a checkpoint, where they are trained."""
        if not self.settings.adapter_rank:
            return {}
        return {name: self._whole(parameter) for name, parameter in self._parameters.items()}

    def _gradient(self, samples: Sequence[TurnSample]) -> Work:
        """Add the gradient of the mean over `samples`, micro-batch by micro-batch."""
        batches = micro_batches(samples, self.settings.token_budget)
        return fetched([self._one_batch(batch, len(samples)) for batch in batches])

    def _one_batch(self, batch: Sequence[TurnSample], responses: int) -> Batch:
        layout = lay_out(batch, responses, self._loss, self.device)
        return Batch(self._backward(layout), len(layout.token_U))

    def _states(self, layout: Layout) -> Tensor:
        if self.general:
            return general_states(self._model, layout)
        return supervised_states(self._model, layout, self._layer_call(), self.pieces)

    def _layer_call(self) -> LayerCall:
        call = partial(decoder_layer, self._model, self.pieces)
        # The learner draws no random numbers, so there is no state of them to bring back.
        return (
            partial(checkpoint, call, use_reentrant=False, preserve_rng_state=False)
            if self.settings.activation_checkpointing
            else call
        )

    def _backward(self, layout: Layout) -> Tensor:
        """Add the gradient of one micro-batch; returns its statistics, one row for each chunk.

        The loss is a sum over tokens with known factors, so the head goes back chunk by chunk and the logits of
        one chunk at a time exist; the rest of the model goes back once, from the collected gradient.
        """
        rows: list[Tensor] = []
        with self._autocast():
            state_NH = self._states(layout)
        leaves = [part.requires_grad_() for part in torch.split(state_NH.detach(), self.head_tokens)]
        given = (layout.target_N, layout.behaviour_N, layout.advantage_N, layout.share_N, layout.anchor_N)
        for state, target, behaviour, advantage, share, anchor in zip(
            leaves, *(torch.split(stream, self.head_tokens) for stream in given)
        ):
            entropy: Tensor | None = None
            with self._autocast():
                if self._loss.entropy_weight:
                    logp, entropy = logprobs_and_entropy(self._model, state, target)
                else:
                    logp = logprobs(self._model, state, target, self.pieces)
            loss, row = surrogate_loss(logp, behaviour, advantage, share, self._loss, anchor, entropy)
            if torch.is_grad_enabled():
                loss.backward()  # type: ignore[no-untyped-call]
            rows.append(row)
        if torch.is_grad_enabled():
            # As `state_NH.backward(gradient)`, which would import torch's symbolic algebra first.
            (state_NH * torch.cat([_grad(leaf) for leaf in leaves])).sum().backward()  # type: ignore[no-untyped-call]
        return torch.stack(rows)

    @contextmanager
    def _likelihood(self) -> Iterator[None]:
        """The loss of supervised fine-tuning instead of the surrogate."""
        surrogate = self._loss
        self._loss = replace(surrogate, likelihood=True, kl_weight=0.0, entropy_weight=0.0)
        try:
            yield
        finally:
            self._loss = surrogate

    def _autocast(self) -> torch.autocast:
        device = torch.device(self.device).type
        return torch.autocast(device, torch.bfloat16, enabled=self.settings.precision == "bfloat16")

    def _refuse(self, samples: Sequence[TurnSample]) -> None:
        """Find the samples whose own loss or gradient is not finite, and name them."""
        guilty = []
        for sample in (sample for sample in samples if any(sample.mask)):
            self._optimizer.zero_grad()
            stats = fetch([self._backward(lay_out([sample], len(samples), self._loss, self.device))])
            norm = torch.nn.utils.get_total_norm(
                [p.grad for p in self._parameters.values() if p.grad is not None]
            )
            if not (self._whole(norm).isfinite() and torch.tensor(stats.loss).isfinite()):
                guilty.append(sample.id)
        self._optimizer.zero_grad()
        named = ", ".join(guilty[:8]) + (f" and {len(guilty) - 8} more" if len(guilty) > 8 else "")
        raise UpdateError(
            f"update {self.version + 1} was not made: the loss or the gradient is not finite; "
            + (f"samples: {named}" if guilty else "no single sample is the cause, only their sum")
            + ". If every sample is named, the weights are broken: resume from an earlier checkpoint"
        )


def _pieces(settings: LearnerSection, device: str) -> Pieces:
    fused = device == "cuda" if settings.kernels == "auto" else settings.kernels == "fused"
    return Fused(settings.precision == "bfloat16") if fused else PLAIN


def _grad(leaf: Tensor) -> Tensor:
    assert leaf.grad is not None, "every chunk of the head has a loss"
    return leaf.grad


def _checkpoint_layers(model: Any) -> None:
    """Let transformers compute activations again: it does so in training mode only, without dropout here."""
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    model.gradient_checkpointing_enable({"use_reentrant": False, "preserve_rng_state": False})
    model.train()


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
