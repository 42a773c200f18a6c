"""BM25 by hand, and whole searches compared with Lucene 8.11."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from actfirst.environments.webshop.catalogue import sample_catalogue
from actfirst.environments.webshop.search import builder as builder_module
from actfirst.environments.webshop.search.builder import IndexBuilder
from actfirst.environments.webshop.search.index import (
    SearchIndex,
    decode_length,
    encode_length,
    inverse_document_frequency,
    inverse_norms,
    term_scores,
)
from tests.environments.webshop.shop import golden


def index(*documents: str, folder: Path | None = None) -> SearchIndex:
    """Documents named d0, d1, ... in order."""
    builder = IndexBuilder(folder)
    for number, text in enumerate(documents):
        builder.add(f"d{number}", text)
    return builder.finish()


class TestLengths:
    def test_lengths_are_exact_up_to_40(self) -> None:
        assert [decode_length(encode_length(length)) for length in range(41)] == list(range(41))

    @pytest.mark.parametrize(
        ("length", "kept"), [(41, 40), (42, 42), (100, 96), (103, 96), (104, 104), (1000, 984)]
    )
    def test_longer_ones_keep_four_bits_beyond_24(self, length: int, kept: int) -> None:
        # 100 - 24 = 76 = 0b1001100 -> 0b1001000 = 72, and 72 + 24 = 96.
        assert decode_length(encode_length(length)) == kept

    def test_a_code_is_a_byte(self) -> None:
        assert encode_length(2**31 - 1) == 255


class TestScores:
    def test_idf(self) -> None:
        # ln(1 + (3 - 1 + 0.5) / (1 + 0.5)) = ln(8/3)
        assert inverse_document_frequency(3, 1) == pytest.approx(math.log(8 / 3), rel=1e-6)

    def test_a_term_by_hand(self) -> None:
        # k1 = 0.9, b = 0.4, length 4, average 2: norm = 0.9 * (0.6 + 0.4 * 4 / 2) = 1.26.
        # Two occurrences: w * 2 / (2 + 1.26).
        norms = inverse_norms(2.0)
        assert norms[4] == pytest.approx(1 / 1.26, rel=1e-6)
        (score,) = term_scores(np.float32(3), np.array([2], np.uint16), norms[[4]])
        assert score == pytest.approx(3 * 2 / 3.26, rel=1e-6)
        assert score.dtype == np.float32

    def test_order_by_hand(self) -> None:
        # Equal frequency: the shorter document wins; then more occurrences win against length.
        found = index("cup tray spoon knife", "cup", "cup cup cup tray", "tray")
        assert found.search("cup").tolist() == [2, 1, 0]

    def test_the_rarer_term_counts_more(self) -> None:
        assert index("red cup", "red tray", "red tray").search("cup tray").tolist()[0] == 0

    def test_a_repeated_word_counts_as_often(self) -> None:
        found = index("cup x", "tray y", "cup z", "tray w", "tray v")
        assert found.search("cup tray").tolist()[0] == 0
        assert found.search("cup tray tray tray").tolist()[0] == 1

    def test_equal_scores_are_ordered_by_name(self) -> None:
        builder = IndexBuilder()
        for name in ("B2", "B10", "A9"):
            builder.add(name, "cup")
        assert builder.finish().search("cup").tolist() == [2, 1, 0]

    def test_at_most_fifty_and_among_equals_the_first_names(self) -> None:
        builder = IndexBuilder()
        for number in range(80, 0, -1):
            builder.add(f"d{number:02d}", "cup")
        hits = builder.finish().search("cup")
        assert [80 - hit for hit in hits] == list(range(1, 51))

    def test_nothing_to_find(self) -> None:
        assert index("cup").search("tray").tolist() == []
        assert index("cup").search("the").tolist() == []
        assert index("").search("cup").tolist() == []
        assert index().search("cup").tolist() == []


class TestIndexes:
    TEXTS = ("red cup", "blue cup cup", "", "the tray", "caf\u00e9 \U0001f44d red")

    def test_names_are_found(self) -> None:
        found = index(*self.TEXTS)
        assert [found.find(f"d{number}") for number in range(5)] == [0, 1, 2, 3, 4]
        assert found.find("d5") is None
        assert found.find("a much longer name than any") is None
        assert found.find("") is None

    def test_blocks_and_files_change_nothing(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        whole = index(*self.TEXTS)
        monkeypatch.setattr(builder_module, "_BLOCK", 2)
        index(*self.TEXTS, folder=tmp_path).save(tmp_path)
        assert not list(tmp_path.glob("block-*"))
        stored = SearchIndex.open(tmp_path)
        assert isinstance(stored.documents, np.memmap)
        for query in ("cup", "red cup", "tray", "caf\u00e9", "\U0001f44d", "nothing"):
            assert stored.search(query).tolist() == whole.search(query).tolist()
        assert stored.find("d3") == 3

    def test_forgetting_known_tokens_changes_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(builder_module, "_MOST_TOKENS_KNOWN", 2)
        assert index(*self.TEXTS).search("red cup").tolist() == [0, 1, 4]


def test_searches_of_the_sample_catalogue_are_lucenes() -> None:
    search = sample_catalogue().search
    wanted = golden("lucene_searches")
    assert {query: " ".join(search(query.lower())) for query in wanted} == wanted
