"""Bytes of tokens: byte-level and SentencePiece vocabularies, and stop strings found in them."""

from __future__ import annotations

import pytest
from tokenizers import Tokenizer, decoders, models

from actfirst.models.token_text import TokenText
from tests.support.tiny_models import make_tiny_tokenizer


@pytest.mark.parametrize(
    "text", ["go to table 1\n", "naïve café ☃ 🦊", "<|im_start|>user\n<think>x</think>", "\x00\t\x7f\xa0\xad"]
)
def test_the_bytes_of_a_byte_level_encoding_are_the_text(text: str) -> None:
    tokenizer = make_tiny_tokenizer()
    table = TokenText.from_tokenizer(tokenizer.backend_tokenizer)
    assert b"".join(map(table.piece, tokenizer.encode(text))) == text.encode()


def test_sentencepiece_pieces_spell_spaces_and_bytes() -> None:
    vocabulary = [
        ("<unk>", 0.0),
        ("▁go", -1.0),
        ("▁to", -1.0),
        ("<0xE2>", -2.0),
        ("<0x98>", -2.0),
        ("ing", -1.0),
    ]
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=0, byte_fallback=True))
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    assert b"".join(map(TokenText.from_tokenizer(tokenizer).piece, [1, 5, 2, 3, 4])) == b" going to\xe2\x98"
    tokenizer.decoder = decoders.Metaspace()
    assert b"".join(map(TokenText.from_tokenizer(tokenizer).piece, [1, 2])) == b" go to"


def test_ids_beyond_the_table_have_no_text() -> None:
    assert b"".join(map(TokenText([b"a"]).piece, [0, 7, 0])) == b"aa"


@pytest.mark.parametrize(
    ("ids", "stop", "ends"),
    [
        ([0, 1, 2], "</action>", True),  # "</" "act" "ion>"
        ([0, 1, 3], "</action>", True),  # "ion>\n": more than the stop in the last token
        ([0, 1, 2, 4], "</action>", False),  # it was completed before
        ([1, 2], "</action>", False),
        ([3], "ion>", True),
        ([0, 5, 1, 2], "</action>", True),  # a token without text between
        ([6, 7], "☃", True),  # the bytes of one character in two tokens
    ],
)
def test_a_stop_string_is_completed_by_the_last_token(ids: list[int], stop: str, ends: bool) -> None:
    table = TokenText([b"</", b"act", b"ion>", b"ion>\n", b"x", b"", "☃".encode()[:1], "☃".encode()[1:]])
    assert table.ends_with_stop(ids, [stop, "unseen"]) is ends
    if ends:
        assert ids[-1] in table.may_complete(stop)
