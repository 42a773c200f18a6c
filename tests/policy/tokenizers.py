"""Small tokenizers with the pre-tokenisers of real model families, and the naive encoding they are held to."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from actfirst.policy.chat_template import Ending
from actfirst.policy.foreign_text import MARK
from actfirst.records import Pair, TurnContext
from tests.support.kinds import TEMPLATE_SETS
from tests.support.tiny_models import CHAT_TEMPLATE, make_tiny_tokenizer

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
BLANKS = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
SPLITS = {"gpt2": GPT2, "qwen": rf"{WORDS}|\p{{N}}|{BLANKS}", "llama3": rf"{WORDS}|\p{{N}}{{1,3}}|{BLANKS}"}
BYTE_LEVEL = ("tiny", "gpt2", "qwen", "llama3")


@cache
def tokenizer(family: str) -> PreTrainedTokenizerFast:
    """One of BYTE_LEVEL, or "metaspace": a SentencePiece-like one that marks the beginning of every text."""
    if family == "tiny":
        return make_tiny_tokenizer()
    core = Tokenizer(models.BPE(unk_token=None))
    if family == "metaspace":
        core.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always", split=False)
        core.decoder = decoders.Metaspace()
    else:
        core.normalizer = normalizers.NFC()
        split = pre_tokenizers.Split(Regex(SPLITS[family]), "isolated")
        core.pre_tokenizer = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(False, use_regex=False)])
        core.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=700, initial_alphabet=alphabet, show_progress=False)
    texts = [form.text for s in TEMPLATE_SETS.values() for form in s.with_history.values()]
    core.train_from_iterator(
        [*texts, "a\n\nb\n\n\nc\n \nd \n  e", *("\n" * n for n in range(1, 5))] * 3, trainer
    )
    core.add_special_tokens([AddedToken(t, special=True) for t in ("<|im_start|>", "<|im_end|>")])
    core.add_tokens([AddedToken(t, special=False, normalized=False) for t in ("<think>", "</think>")])
    made = PreTrainedTokenizerFast(tokenizer_object=core, eos_token="<|im_end|>")
    made.chat_template = CHAT_TEMPLATE
    return made


CLOSED = "<think>\n\n</think>\n\n"
ENDINGS = {Ending.OPEN: "", Ending.CLOSED: CLOSED, Ending.PREFILLED: f"{CLOSED}<action>"}


def naive_ids(of: PreTrainedTokenizerFast, text: str, ending: Ending = Ending.OPEN) -> list[int]:
    """The chat template's own tokens around the message tokenised whole: special tokens in it are plain text, and so
    are think tags with a mark in them."""

    def ids(part: str, *, plain: bool) -> list[int]:
        found: list[int] = of(part, add_special_tokens=False, split_special_tokens=plain)["input_ids"]
        return found

    opening = ids("<|im_start|>", plain=False)
    closing = ids(f"<|im_end|>\n<|im_start|>assistant\n{ENDINGS[ending]}", plain=False)
    message = "user\n" + text.strip()
    if MARK not in message:
        return [*opening, *ids(message, plain=True), *closing]
    inner: list[int] = []
    for part in re.split("(</?think>)", message):
        known = re.fullmatch("</?think>", part)
        inner += ids(part, plain=True) if known else without_added_tokens(of).encode(part.replace(MARK, "")).ids
    return [*opening, *inner, *closing]


def marked(context: TurnContext) -> TurnContext:
    """The context with a mark in every think tag of its texts."""

    def mark(text: str) -> str:
        return re.sub("<(?=/?think>)", f"<{MARK}", text.replace(MARK, ""))

    seen = context.observation
    return TurnContext(
        mark(context.instruction),
        tuple(Pair(mark(pair.observation), mark(pair.action)) for pair in context.history),
        replace(
            seen,
            text=mark(seen.text),
            admissible=tuple(map(mark, seen.admissible)),
            templates=tuple(map(mark, seen.templates)),
            objects=tuple(map(mark, seen.objects)),
        ),
        context.turn,
    )


@cache
def without_added_tokens(of: PreTrainedTokenizerFast) -> Tokenizer:
    made = json.loads(of.backend_tokenizer.to_str())
    made["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(made))
