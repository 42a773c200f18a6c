"""Small tokenizers with the pre-tokenisers of real model families, and the naive encoding they are held to."""

from __future__ import annotations

from functools import cache

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

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


def naive_ids(of: PreTrainedTokenizerFast, text: str) -> list[int]:
    """The chat template's own tokens around the message tokenised whole, special tokens in it as plain text."""

    def ids(part: str, *, plain: bool) -> list[int]:
        found: list[int] = of(part, add_special_tokens=False, split_special_tokens=plain)["input_ids"]
        return found

    opening, closing = ids("<|im_start|>", plain=False), ids("<|im_end|>\n<|im_start|>assistant\n", plain=False)
    return [*opening, *ids("user\n" + text.strip(), plain=True), *closing]
