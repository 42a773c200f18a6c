"""The search index: which documents hold which term, and the search over it.

The arrays are plain in memory for a small catalogue, and memory-mapped files for a large one; the search does
not see the difference. `builder.py` makes them. Documents are numbered in catalogue order; equal scores are
ordered by document name.

Scores are BM25 as Lucene 8 computes it: lengths kept in one byte, every step in single precision, no (k1 + 1). A
document's length is quantised (exact up to 39 terms, then four significant bits), so documents of nearly equal length
score equally. Sums over terms are made in double precision and rounded once.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from actfirst.environments.webshop.search.analyzer import analyze

K1 = np.float32(0.9)
B = np.float32(0.4)

_FREE = 24  # lengths below this are their own code

HITS = 50
"""How many documents a search returns at most."""


def encode_length(length: int) -> int:
    """The byte in which a length is kept."""
    if length < _FREE:
        return length
    rest = length - _FREE
    bits = rest.bit_length()
    if bits < 4:
        return _FREE + rest
    shift = bits - 4
    return _FREE + (rest >> shift & 7 | shift + 1 << 3)


def decode_length(code: int) -> int:
    """The length that a byte stands for."""
    if code < _FREE:
        return code
    rest = code - _FREE
    shift = (rest >> 3) - 1
    return _FREE + (rest if shift < 0 else (rest & 7 | 8) << shift)


LENGTHS = np.array([decode_length(code) for code in range(256)], np.float32)


def inverse_norms(average_length: float) -> NDArray[np.float32]:
    """For every length code, what a term frequency is multiplied with."""
    one = np.float32(1)
    return one / (K1 * ((one - B) + B * LENGTHS / np.float32(average_length)))


def inverse_document_frequency(documents: int, containing: int) -> np.float32:
    """The weight of a term that `containing` of the `documents` have."""
    return np.float32(math.log(1 + (documents - containing + 0.5) / (containing + 0.5)))


def term_scores(
    weight: np.float32, frequencies: NDArray[np.uint16], norms: NDArray[np.float32]
) -> NDArray[np.float32]:
    """What one term adds to each document that has it; `norms` are those documents' inverse norms."""
    return weight - weight / (np.float32(1) + frequencies.astype(np.float32) * norms)


@dataclass(frozen=True, slots=True)
class SearchIndex:
    """Postings and names. The postings of term t are `documents[starts[t]:starts[t + 1]]`, ascending.

    `terms` holds all terms, sorted by their UTF-8 bytes, one after the other; term t is the bytes from
    `term_starts[t]` to `term_starts[t + 1]`. `names` are the document names in sorted order, `named` the documents
    that bear them, and `ranks` the place of each document's name among them.
    """

    terms: NDArray[np.uint8]
    term_starts: NDArray[np.uint64]
    starts: NDArray[np.uint64]
    documents: NDArray[np.uint32]
    frequencies: NDArray[np.uint16]
    lengths: NDArray[np.uint8]
    length_sum: NDArray[np.uint64]
    names: NDArray[np.bytes_]
    named: NDArray[np.uint32]
    ranks: NDArray[np.uint32]

    def __len__(self) -> int:
        return len(self.lengths)

    def search(self, query: str, hits: int = HITS) -> NDArray[np.uint32]:
        scores = np.zeros(len(self), np.float64)
        filled = int(np.count_nonzero(self.lengths))
        norms = inverse_norms(float(self.length_sum[0]) / filled) if filled else None
        for term, count in Counter(analyze(query)).items():
            span = self._postings(term)
            if span is None or norms is None:
                continue
            documents = self.documents[span]
            idf = inverse_document_frequency(filled, len(documents))
            scores[documents] += term_scores(
                np.float32(count) * idf, self.frequencies[span], norms[self.lengths[documents]]
            )
        return self._best(np.flatnonzero(scores), scores, hits)

    def find(self, name: str) -> int | None:
        wanted = name.encode("utf-8", "surrogatepass")
        if len(wanted) > self.names.itemsize:
            return None  # and no search: numpy would widen, that is copy, all names
        place = int(np.searchsorted(self.names, np.bytes_(wanted)))
        if place < len(self.names) and self.names[place] == wanted:
            return int(self.named[place])
        return None

    def save(self, folder: Path) -> None:
        """Writes the arrays to a folder; those that the builder has mapped to files there are there already."""
        for field in fields(self):
            array = getattr(self, field.name)
            if isinstance(array, np.memmap):
                array.flush()
            else:
                np.save(folder / f"{field.name}.npy", array)

    @staticmethod
    def open(folder: Path) -> SearchIndex:
        """The index that was saved in a folder; its arrays stay on disk. The small ones are read."""
        arrays = {
            field.name: np.load(folder / f"{field.name}.npy", mmap_mode="r") for field in fields(SearchIndex)
        }
        for name in ("lengths", "ranks", "length_sum"):
            arrays[name] = np.array(arrays[name])
        return SearchIndex(**arrays)

    def _postings(self, term: str) -> slice | None:
        wanted = term.encode("utf-8", "surrogatepass")
        low, high = 0, len(self.term_starts) - 1
        while low < high:
            middle = (low + high) // 2
            if self._term(middle) < wanted:
                low = middle + 1
            else:
                high = middle
        if low == len(self.term_starts) - 1 or self._term(low) != wanted:
            return None
        return slice(int(self.starts[low]), int(self.starts[low + 1]))

    def _term(self, number: int) -> bytes:
        return self.terms[int(self.term_starts[number]) : int(self.term_starts[number + 1])].tobytes()

    def _best(self, candidates: NDArray[np.intp], scores: NDArray[np.float64], hits: int) -> NDArray[np.uint32]:
        rounded = scores[candidates].astype(np.float32)
        if len(candidates) > hits:
            # All that reach the score of the last hit: which of equals are taken is decided by name.
            worst = np.partition(rounded, len(rounded) - hits)[len(rounded) - hits]
            reached = rounded >= worst
            candidates, rounded = candidates[reached], rounded[reached]
        order = np.lexsort((self.ranks[candidates], -rounded))
        return candidates[order][:hits].astype(np.uint32)
