"""Any causal language model by its own transformers forward pass; the caller computes the attention.

Engine and learner pack the tokens of many sequences into one row. All that is done token by token is the model's own;
attention goes through transformers' attention interface to a function of the caller, which knows where the sequences
lie. A model whose attention does not go that way, or that computes something else there, is refused when it is opened:
its log-probs on a few tokens are compared with those of the untouched model.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

from actfirst.errors import CheckpointError

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Model: TypeAlias = "PreTrainedModel"
_NAME = "actfirst"  # in transformers' table of attention functions
_LAYERS = {"full_attention", "sliding_attention"}


@dataclass(frozen=True, slots=True)
class Form:
    """How a layer attends: queries are multiplied by `scaling`, scores end in `softcap * tanh(score / softcap)`, and a
    query sees its own and the `window` - 1 positions before it."""

    scaling: float
    window: int | None = None
    softcap: float | None = None

    def mask(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        """True where a query sees a key; the arguments are broadcast."""
        seen = key_positions <= query_positions
        return seen if self.window is None else seen & (key_positions > query_positions - self.window)

    def capped(self, scores: Tensor) -> Tensor:
        return scores if self.softcap is None else torch.tanh(scores / self.softcap) * self.softcap


class Attend(Protocol):
    """Attention of all T packed tokens in one layer."""

    def __call__(self, layer: int, q_HTD: Tensor, k_KTD: Tensor, v_KTD: Tensor, form: Form) -> Tensor:
        """What each query attends to: (T, heads, head size)."""


def open_general(folder: Path, dtype: torch.dtype) -> Model:
    """The model of a checkpoint folder, without dropout, proven to compute the same as untouched."""
    from transformers import AttentionInterface, AutoModelForCausalLM

    AttentionInterface.register(_NAME, _attention)
    try:
        with no_progress_bar():
            model = AutoModelForCausalLM.from_pretrained(
                folder, dtype=dtype, local_files_only=True, attn_implementation=_NAME
            ).eval()
    except MemoryError:
        raise
    except Exception as error:  # transformers has no type of its own for a broken file
        raise CheckpointError(
            f"{folder} is no whole checkpoint: {type(error).__name__}: {error}; copy it again"
        ) from error
    _prove(model, folder)
    return model


def run(model: Model, token_T: Tensor, position_T: Tensor, attend: Attend) -> Tensor:
    """The final hidden state of every token (T x H)."""
    result = model.base_model(
        input_ids=token_T[None], position_ids=position_T[None], use_cache=False, actfirst_attend=attend
    )
    state: Tensor = result.last_hidden_state[0]
    return state


def head(model: Model, state_NH: Tensor) -> Tensor:
    """Logits, with what some architectures do to them after the head."""
    logits: Tensor = model.get_output_embeddings()(state_NH)
    config = model.config.get_text_config()
    if cap := getattr(config, "final_logit_softcapping", None):
        logits = torch.tanh(logits / cap) * cap
    if (scale := getattr(config, "logit_scale", None)) is not None:
        logits = logits * scale
    if (divisor := getattr(config, "logits_scaling", None)) is not None:
        logits = logits / divisor
    return logits


def causal(q_BHTD: Tensor, k_BKSD: Tensor, v_BKSD: Tensor, form: Form) -> Tensor:
    """Causal attention of the last T of S positions: (B, heads, T, head size)."""
    queries, keys = q_BHTD.shape[-2], k_BKSD.shape[-2]
    whole = form.window is None or form.window >= keys
    if whole and form.softcap is None and queries == keys:
        return functional.scaled_dot_product_attention(
            q_BHTD, k_BKSD, v_BKSD, is_causal=True, scale=form.scaling, enable_gqa=True
        )
    place_S = torch.arange(keys, device=q_BHTD.device)
    mask_TS = form.mask(place_S[keys - queries :, None], place_S)
    if form.softcap is None:
        return functional.scaled_dot_product_attention(
            q_BHTD, k_BKSD, v_BKSD, attn_mask=mask_TS, scale=form.scaling, enable_gqa=True
        )
    group = q_BHTD.shape[1] // k_BKSD.shape[1]
    k_BHSD, v_BHSD = (stream.repeat_interleave(group, 1) for stream in (k_BKSD, v_BKSD))
    scores = form.capped(q_BHTD @ k_BHSD.transpose(-1, -2) * form.scaling)
    return torch.softmax(scores.masked_fill(~mask_TS, float("-inf")).float(), -1).to(v_BHSD.dtype) @ v_BHSD


def _attention(
    module: Any,
    q_1HTD: Tensor,
    k_1KTD: Tensor,
    v_1KTD: Tensor,
    attention_mask: Tensor | None,
    *,
    scaling: float | None = None,
    sliding_window: int | None = None,
    softcap: float | None = None,
    actfirst_attend: Attend | None = None,
    **others: Any,
) -> tuple[Tensor, None]:
    """What transformers calls in place of an attention function of its own."""
    if actfirst_attend is None or others.get("s_aux") is not None or v_1KTD.shape[-1] != k_1KTD.shape[-1]:
        raise NotImplementedError("its attention is of a form that is not known here")
    form = Form(scaling or q_1HTD.shape[-1] ** -0.5, sliding_window, softcap)
    return actfirst_attend(module.layer_idx, q_1HTD[0], k_1KTD[0], v_1KTD[0], form)[None], None


@torch.no_grad()
def _prove(model: Model, folder: Path) -> None:
    """Compare two packed sequences with the model's own pass over each."""
    config = model.config.get_text_config()
    ids = torch.arange(15, device=model.device) * 7919 % config.vocab_size
    lengths = [9, 6]
    windows: dict[int, int | None] = {}

    def attend(layer: int, q_HTD: Tensor, k_KTD: Tensor, v_KTD: Tensor, form: Form) -> Tensor:
        windows[layer] = form.window
        parts = zip(*(torch.split(stream, lengths, 1) for stream in (q_HTD, k_KTD, v_KTD)))
        return torch.cat([causal(q[None], k[None], v[None], form)[0] for q, k, v in parts], 1).transpose(0, 1)

    refusal = f"{folder}: a {model.config.model_type!r} model cannot be run here: "
    kinds = list(getattr(config, "layer_types", None) or ())
    if unknown := set(kinds) - _LAYERS:
        raise CheckpointError(f"{refusal}it has layers of kind {', '.join(sorted(unknown))}")
    try:
        positions = torch.cat([torch.arange(length, device=model.device) for length in lengths])
        ours = head(model, run(model, ids, positions, attend)).float()
        model.set_attn_implementation("eager")
        own = torch.cat(
            [model(part[None], use_cache=False).logits[0] for part in torch.split(ids, lengths)]
        ).float()
        model.set_attn_implementation(_NAME)
    except (NotImplementedError, RuntimeError, TypeError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{refusal}{error}; choose an engine of kind vllm, or another model") from error
    sliding = [i for i, kind in enumerate(kinds) if kind == "sliding_attention"]
    if len(windows) != config.num_hidden_layers or any(windows[i] is None for i in sliding):
        raise CheckpointError(f"{refusal}its attention does not go through transformers' attention interface")
    tolerance = (1e-3 if ours.dtype == model.dtype else 0.1) * float(own.abs().max())
    if not float((ours - own).abs().max()) <= tolerance:
        raise CheckpointError(
            f"{refusal}packed sequences get other logits than single ones (they differ by "
            f"{float((ours - own).abs().max()):.3g}); choose another model"
        )


@contextmanager
def no_progress_bar() -> Iterator[None]:
    """transformers draws one on standard error while it loads; the command line draws its own."""
    from transformers.utils import logging

    shown = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if shown:
            logging.enable_progress_bar()
