"""BM25 as Lucene 8 computes it: lengths kept in one byte, every step in single precision, no (k1 + 1).

A document's length is quantised (exact up to 39 terms, then four significant bits), so documents of nearly equal
length score equally. Sums over terms are made in double precision and rounded once.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

K1 = np.float32(0.9)
B = np.float32(0.4)

_FREE = 24  # lengths below this are their own code


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
