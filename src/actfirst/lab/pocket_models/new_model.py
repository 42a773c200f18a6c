"""A new model of random weights: its shape, and what is known of its tokens before anything was learned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import Qwen3Config, Qwen3ForCausalLM

from actfirst.lab.pocket_models.tokenizer import MAX_POSITIONS

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

_SPACE = "\u0120"  # how byte-level vocabularies write a space
_NUMBERED = re.compile(rf"{_SPACE}([a-z]+){_SPACE}(\d+)")


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of both models: Qwen3 with tied embeddings and one key-value head."""

    hidden: int = 96
    layers: int = 3
    heads: int = 3
    head_dim: int = 64
    mlp: int = 256
    rope_theta: float = 1e6  # names must match over hundreds of tokens: slow rotations leave room for that


def new_model(
    shape: Shape, tokenizer: PreTrainedTokenizerFast, spellings: Sequence[str] = ()
) -> PreTrainedModel:
    """A model of random weights that knows which names are about the same kind of thing, and which tokens are one name
    in several `spellings`."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=shape.hidden,
            intermediate_size=shape.mlp,
            num_hidden_layers=shape.layers,
            num_attention_heads=shape.heads,
            num_key_value_heads=1,
            head_dim=shape.head_dim,
            max_position_embeddings=MAX_POSITIONS,
            tie_word_embeddings=True,
            initializer_range=0.04,
            rope_parameters={"rope_type": "default", "rope_theta": shape.rope_theta},
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    _compose_names(model, tokenizer)
    if spellings:
        _relate_spellings(model, tokenizer, spellings)
    return model


@torch.no_grad()
def _compose_names(model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> None:
    """Let "cup 1" begin near "cup" and "1": what is learned of one name then helps with the others."""
    vectors = model.get_input_embeddings().weight
    vocabulary = tokenizer.get_vocab()
    for token, place in vocabulary.items():
        if name := _NUMBERED.fullmatch(token):
            kind, number = (vectors[vocabulary[_SPACE + part]] for part in name.groups())
            vectors[place] = 0.8 * kind + 0.4 * number + 0.2 * vectors[place]


@torch.no_grad()
def _relate_spellings(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, spellings: Sequence[str]
) -> None:
    """Let " Black" and "click[black]" begin near "black", each spelling with something of its own that is the same for
    all names: what is read in one spelling is written in another, also of a name that is seldom seen."""
    vectors = model.get_input_embeddings().weight
    vocabulary = tokenizer.get_vocab()
    own: dict[tuple[str, str, bool], Tensor] = {}
    for token, place in sorted(vocabulary.items()):
        form, written = _form_of(token, spellings)
        name = written.removeprefix(_SPACE).removeprefix(" ")
        plain = vocabulary.get(name.lower(), place)
        if plain != place:
            spelling = form, written.removesuffix(name), name == name.lower()
            vectors[place] = 0.8 * vectors[plain] + 0.6 * own.setdefault(spelling, vectors[place].clone())


def _form_of(token: str, spellings: Sequence[str]) -> tuple[str, str]:
    """The longest spelling that a token has, and what stands in the place of the name."""
    for form in sorted(spellings, key=len, reverse=True):
        before, after = form.split("{}")
        if len(token) >= len(before) + len(after) and token.startswith(before) and token.endswith(after):
            return form, token[len(before) : len(token) - len(after)]
    return "{}", token
