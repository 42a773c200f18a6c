"""Tiny random checkpoints for tests: a model of one of several architectures and a BPE tokenizer, made in a second.

They know nothing; they exist so that engines, learners and teachers can be tested against a plain
transformers forward pass. The chat template has the shape of Qwen3's.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedTokenizerFast,
)

IM_START, IM_END, THINK, END_THINK, PAD = "<|im_start|>", "<|im_end|>", "<think>", "</think>", "<|endoftext|>"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}"
    "{{ '<|im_start|>assistant\n' }}"
    "{% if enable_thinking is defined and enable_thinking is false %}{{ '<think>\n\n</think>\n\n' }}{% endif %}"
    "{% endif %}"
)

CORPUS = (
    "You are in the kitchen. You see a fridge, a table and a cup. Your task: put a clean cup on the table.",
    "Admissible actions: go to fridge 1, go to table 1, take cup 1 from table 1, open fridge 1, inventory.",
    "I should first look for the cup, then clean it in the sink, and then put it on the table.",
    "<action>go to table 1</action> <action>take cup 1 from table 1</action> <action>look</action>",
    "Observation: On the table 1, you see a cup 1, a plate 2 and an apple 3. Nothing happens.",
)


# Architectures of the general path: the name in transformers, and what makes them special.
_MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "qwen3": (
        "qwen3",
        {
            "intermediate_size": 128,
            "num_hidden_layers": 3,
            "num_key_value_heads": 1,
            "head_dim": 32,
            "tie_word_embeddings": True,
        },
    ),
    "qwen2": (
        "qwen2",
        {"hidden_size": 128, "intermediate_size": 128, "tie_word_embeddings": False, "initializer_range": 0.2},
    ),
    "llama": ("llama", {"intermediate_size": 128, "tie_word_embeddings": False}),
    "gemma3": (
        "gemma3_text",
        {
            "head_dim": 16,
            "sliding_window": 24,
            "layer_types": ["sliding_attention", "full_attention"],
            "final_logit_softcapping": 5.0,
            "initializer_range": 0.1,
        },
    ),
    "olmo2": ("olmo2", {"tie_word_embeddings": False}),
    "gemma2": ("gemma2", {"head_dim": 16, "sliding_window": 24, "attn_logit_softcapping": 5.0}),
    "mistral": ("mistral", {"head_dim": 16, "sliding_window": 24}),
    "phi": ("phi", {"tie_word_embeddings": False}),
    "smollm3": ("smollm3", {"no_rope_layers": [1, 0]}),
    "qwen3_moe": (
        "qwen3_moe",
        {"head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32},
    ),
}


def make_tiny_checkpoint(folder: Path, *, seed: int = 0, architecture: str = "qwen3") -> Path:
    """Write a random checkpoint (model, config, tokenizer) into `folder` and return it.

    `architecture` is "qwen3" (tied embeddings, one KV head), "qwen2" (untied, two KV heads, biases) or "llama"
    (untied, two KV heads), or one of the general path (the rest of _MODELS).
    The weights depend on `seed` alone, the tokenizer on nothing.
    """
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer = make_tiny_tokenizer()
    tokenizer.save_pretrained(folder)
    torch_state = torch.random.get_rng_state()
    torch.manual_seed(seed)
    model = _model(architecture, tokenizer)
    for name, parameter in model.named_parameters():
        if "norm" in name:  # all ones otherwise, and a forgotten norm weight would not show
            torch.nn.init.uniform_(parameter, 0.6, 1.4)
        elif name.endswith("bias"):  # all zeros otherwise
            torch.nn.init.uniform_(parameter, -1.0, 1.0)
    torch.random.set_rng_state(torch_state)
    model.generation_config.eos_token_id = tokenizer.convert_tokens_to_ids(IM_END)
    model.generation_config.pad_token_id = tokenizer.convert_tokens_to_ids(PAD)
    model.save_pretrained(folder)
    return folder


def make_tiny_tokenizer() -> PreTrainedTokenizerFast:
    """A byte-level BPE tokenizer of a little under 400 tokens with Qwen3's special tokens and chat template."""
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=395,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator(CORPUS * 4, trainer)
    core.add_special_tokens([AddedToken(text, special=True) for text in (PAD, IM_START, IM_END)])
    # As in Qwen3, the thinking marks are single tokens but not special ones: decoding keeps them.
    core.add_tokens([AddedToken(text, special=False, normalized=False) for text in (THINK, END_THINK)])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, eos_token=IM_END, pad_token=PAD)
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def _model(architecture: str, tokenizer: PreTrainedTokenizerFast) -> Any:
    # Large initial weights make distributions that are far from uniform, so that wrong ones show.
    if architecture not in _MODELS:
        raise ValueError(f"architecture {architecture!r} is none of {', '.join(_MODELS)}")
    model_type, settings = _MODELS[architecture]
    config = AutoConfig.for_model(
        model_type,
        **{
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "max_position_embeddings": 2048,
            "initializer_range": 0.25,
            "eos_token_id": tokenizer.convert_tokens_to_ids(IM_END),
            "pad_token_id": tokenizer.convert_tokens_to_ids(PAD),
            **settings,
        },
    )
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
