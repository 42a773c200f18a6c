"""Token ids to bytes by table, so that stop strings are found without decoding after every token.

A byte-level tokenizer (GPT-2, Qwen, SmolLM2) spells each byte as one character; a SentencePiece one (Metaspace)
writes a space as "▁" and odd bytes as "<0xAB>". Both give every token its own bytes, and the text of a sequence
is their concatenation. Added tokens, special or not, stand for their own text.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")


class TokenText:
    """The bytes of every token id. Ids beyond the table (padding of the vocabulary) have none."""

    def __init__(self, pieces: Sequence[bytes]) -> None:
        self.pieces = tuple(pieces)
        self._completing: dict[str, frozenset[int]] = {}

    @classmethod
    def from_tokenizer(cls, tokenizer: Tokenizer) -> TokenText:
        """From a tokenizer of the `tokenizers` library (`backend_tokenizer` of a transformers one)."""
        added = {i: token.content for i, token in tokenizer.get_added_tokens_decoder().items()}
        vocabulary = tokenizer.get_vocab(with_added_tokens=True)
        kinds = _decoder_kinds(tokenizer)
        pieces = [b""] * (max(vocabulary.values(), default=-1) + 1)
        for piece, i in vocabulary.items():
            if i in added:
                pieces[i] = added[i].encode()
            elif "ByteLevel" in kinds:
                pieces[i] = _byte_level(piece)
            elif kinds & {"Metaspace", "ByteFallback", "Replace"}:
                pieces[i] = _sentencepiece(piece)
            else:
                pieces[i] = tokenizer.decode([i], skip_special_tokens=False).encode()
        return cls(pieces)

    def piece(self, i: int) -> bytes:
        return self.pieces[i] if i < len(self.pieces) else b""

    def text(self, ids: Iterable[int]) -> str:
        return b"".join(map(self.piece, ids)).decode("utf-8", "replace")

    def texts(self, ids: Iterable[int]) -> list[str]:
        """One text per token; joined they are the whole. A character that spans tokens is in the last of them."""
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        found = [decoder.decode(self.piece(i)) for i in ids]
        if found:
            found[-1] += decoder.decode(b"", final=True)
        return found

    def may_complete(self, stop: str) -> frozenset[int]:
        """The ids that can complete `stop`, as they contain its last byte: all others need no closer look."""
        if stop not in self._completing:
            last = stop.encode()[-1:]
            self._completing[stop] = frozenset(i for i, piece in enumerate(self.pieces) if last in piece)
        return self._completing[stop]

    def ends_with_stop(self, ids: Sequence[int], stops: Iterable[str]) -> bool:
        """Whether the last token of `ids` completes one of `stops` within the text of `ids`."""
        return any(self._completed_by_last(ids, stop.encode()) for stop in stops)

    def _completed_by_last(self, ids: Sequence[int], stop: bytes) -> bool:
        last = self.piece(ids[-1])
        tail, position = last, len(ids) - 1
        while len(tail) < len(last) + len(stop) - 1 and position > 0:
            position -= 1
            tail = self.piece(ids[position]) + tail
        # A match that ends before the last token began is not its doing.
        return tail.find(stop, max(0, len(tail) - len(last) - len(stop) + 1)) >= 0


def _decoder_kinds(tokenizer: Tokenizer) -> set[str]:
    """The types of the tokenizer's decoder and its parts, e.g. {"Sequence", "Replace", "ByteFallback"}."""
    if tokenizer.decoder is None:
        return set()
    state = json.loads(tokenizer.decoder.__getstate__())  # noqa: TID251  every character of a vocabulary counts
    return {state["type"], *(part["type"] for part in state.get("decoders", ()))}


def _byte_of_character() -> dict[str, int]:
    """The byte that each character of a byte-level vocabulary spells: printable ones themselves, the others
    the characters from U+0100 on, in order of their value."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    table.update({chr(256 + i): byte for i, byte in enumerate(others)})
    return table


_BYTES = _byte_of_character()


def _byte_level(piece: str) -> bytes:
    if all(character in _BYTES for character in piece):
        return bytes(_BYTES[character] for character in piece)
    return piece.encode()


def _sentencepiece(piece: str) -> bytes:
    found = _BYTE_TOKEN.fullmatch(piece)
    return bytes([int(found[1], 16)]) if found else piece.replace("▁", " ").encode()
