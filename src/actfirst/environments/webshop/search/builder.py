"""Builds a search index from documents that come one by one.

Documents are taken in blocks: a block's postings are sorted and put aside (on disk, where a folder is given), and
at the end all blocks are dealt out to the places of their terms. Memory holds one block and the vocabulary.
"""

from __future__ import annotations

from array import array
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from actfirst.environments.webshop.search.analyzer import normalize
from actfirst.environments.webshop.search.index import SearchIndex, encode_length
from actfirst.environments.webshop.search.tokenizer import tokenize

_BLOCK = 20_000
_STOPPED = 0  # terms are numbered from 1 as they come
_MOST_TOKENS_KNOWN = 2_000_000
_MOST_OFTEN = np.iinfo(np.uint16).max

_Block = tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint16]]


class IndexBuilder:
    """Takes documents in catalogue order with `add`; `finish` returns the index."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder
        self._names: list[bytes] = []
        self._lengths = array("q")
        self._numbers: dict[str, int] = {}
        self._known: dict[str, int] = {}
        self._pending = array("I")
        self._blocks: list[_Block | Path] = []
        self._block_start = 0

    def add(self, name: str, text: str) -> None:
        tokens = tokenize(text)
        numbers = list(map(self._known.get, tokens))
        if None in numbers:
            numbers = [self._learn(token) for token in tokens]
        terms = array("I", [number for number in numbers if number])
        self._pending.extend(terms)
        self._names.append(name.encode("utf-8", "surrogatepass"))
        self._lengths.append(len(terms))
        if len(self._names) - self._block_start == _BLOCK:
            self._close_block()

    def finish(self) -> SearchIndex:
        """The index; with a folder, its postings are memory-mapped files there."""
        self._close_block()
        encoded = sorted((term.encode("utf-8", "surrogatepass"), old) for term, old in self._numbers.items())
        place = np.zeros(len(encoded) + 1, np.int64)
        place[[old for _, old in encoded]] = np.arange(len(encoded))
        starts, documents, frequencies = self._deal_out(place)
        names = np.array(self._names, np.bytes_)
        named = np.argsort(names, kind="stable").astype(np.uint32)
        ranks = np.empty(len(names), np.uint32)
        ranks[named] = np.arange(len(names), dtype=np.uint32)
        lengths = np.frombuffer(self._lengths, np.int64) if self._lengths else np.zeros(0, np.int64)
        codes = {int(length): encode_length(int(length)) for length in np.unique(lengths)}
        return SearchIndex(
            terms=np.frombuffer(b"".join(term for term, _ in encoded), np.uint8),
            term_starts=_ends([len(term) for term, _ in encoded]),
            starts=starts,
            documents=documents,
            frequencies=frequencies,
            lengths=np.array([codes[int(length)] for length in lengths], np.uint8),
            length_sum=np.array([lengths.sum()], np.uint64),
            names=names[named],
            named=named,
            ranks=ranks,
        )

    def _learn(self, token: str) -> int:
        if len(self._known) >= _MOST_TOKENS_KNOWN:
            self._known.clear()  # only a memory of what was looked up: nothing is lost but time
        number = self._known.get(token)
        if number is None:
            term = normalize(token)
            number = _STOPPED if term is None else self._numbers.setdefault(term, len(self._numbers) + 1)
            self._known[token] = number
        return number

    def _close_block(self) -> None:
        lengths = self._lengths[self._block_start :]
        start, self._block_start = self._block_start, len(self._names)
        if not self._pending:
            return
        documents = np.repeat(
            np.arange(start, self._block_start, dtype=np.uint64), np.frombuffer(lengths, np.int64)
        )
        pairs = np.frombuffer(self._pending, np.uint32).astype(np.uint64) << np.uint64(32) | documents
        self._pending = array("I")
        pairs, counts = np.unique(pairs, return_counts=True)
        block = (
            (pairs >> np.uint64(32)).astype(np.uint32),
            (pairs & np.uint64(0xFFFFFFFF)).astype(np.uint32),
            np.minimum(counts, _MOST_OFTEN).astype(np.uint16),
        )
        self._blocks.append(block if self._folder is None else self._put_aside(self._folder, block))

    def _put_aside(self, folder: Path, block: _Block) -> Path:
        path = folder / f"block-{len(self._blocks):05d}.npz"
        np.savez(path, terms=block[0], documents=block[1], frequencies=block[2])
        return path

    def _deal_out(
        self, place: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint64], NDArray[np.uint32], NDArray[np.uint16]]:
        """Every block's postings at the places of their terms; blocks are in document order already."""
        counts = np.zeros(len(place) - 1, np.int64)
        for stored in self._blocks:
            counts += np.bincount(place[_read(stored)[0]], minlength=len(counts))
        starts = _ends(counts)
        documents = self._array("documents", int(starts[-1]), np.dtype(np.uint32))
        frequencies = self._array("frequencies", int(starts[-1]), np.dtype(np.uint16))
        free = starts[:-1].astype(np.int64)
        for stored in self._blocks:
            terms, block_documents, block_frequencies = _read(stored)
            # A block is sorted by the old term numbers: the run of each term goes to its free places.
            first = np.flatnonzero(np.diff(terms, prepend=np.uint32(0xFFFFFFFF)))
            sizes = np.diff(first, append=len(terms))
            here = place[terms[first]]
            targets = np.repeat(free[here] - first, sizes) + np.arange(len(terms))
            documents[targets] = block_documents
            frequencies[targets] = block_frequencies
            free[here] += sizes
            if isinstance(stored, Path):
                stored.unlink()
        return starts, documents, frequencies

    def _array(self, name: str, size: int, kind: np.dtype[Any]) -> NDArray[Any]:
        if self._folder is None or size == 0:
            return np.empty(size, kind)
        path = self._folder / f"{name}.npy"
        return np.lib.format.open_memmap(path, mode="w+", dtype=kind, shape=(size,))


def _read(stored: _Block | Path) -> _Block:
    if not isinstance(stored, Path):
        return stored
    with np.load(stored) as arrays:
        return arrays["terms"], arrays["documents"], arrays["frequencies"]


def _ends(sizes: list[int] | NDArray[np.int64]) -> NDArray[np.uint64]:
    """Where each of some consecutive stretches begins, and where the last one ends."""
    ends = np.zeros(len(sizes) + 1, np.uint64)
    np.cumsum(np.asarray(sizes, np.uint64), out=ends[1:])
    return ends
