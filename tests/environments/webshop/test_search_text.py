"""Tokens, stems and terms, compared with what Lucene 8.11 made of the same texts."""

from __future__ import annotations

import pytest

from actfirst.environments.webshop.search.analyzer import STOP_WORDS, analyze
from actfirst.environments.webshop.search.porter import stem
from actfirst.environments.webshop.search.tokenizer import MAX_TOKEN, tokenize
from tests.environments.webshop.shop import golden

LUCENE = golden("lucene_tokens")


@pytest.mark.parametrize("case", LUCENE, ids=[ascii(case["text"][:20]) for case in LUCENE])
def test_tokens_and_terms_are_lucenes(case: dict[str, list[str]]) -> None:
    assert tokenize(str(case["text"])) == case["tokens"]
    assert analyze(str(case["text"])) == case["terms"]


def test_stems_are_lucenes() -> None:
    stems = golden("lucene_stems")
    assert {word: stem(word) for word in stems if word not in STOP_WORDS} == {
        word: wanted for word, wanted in stems.items() if word not in STOP_WORDS
    }


class TestTokens:
    @pytest.mark.parametrize(
        ("text", "tokens"),
        [
            ("a-b", ["a", "b"]),
            ("don't", ["don't"]),
            ("5.5 inch", ["5.5", "inch"]),
            ("a.b a. .b", ["a.b", "a", "b"]),
            ("1,000;2", ["1,000;2"]),
            ("a,b", ["a", "b"]),
            ("size:m 1:2", ["size:m", "1", "2"]),
            ("__x__ __", ["__x__"]),
            ("1a.b2 1.a", ["1a.b2", "1", "a"]),
        ],
    )
    def test_ascii(self, text: str, tokens: list[str]) -> None:
        assert tokenize(text) == tokens

    def test_ascii_and_other_text_follow_the_same_rules(self) -> None:
        for case in LUCENE:
            text = str(case["text"])
            if text.isascii():
                assert tokenize(text + " \u00e9") == [*tokenize(text), "\u00e9"]

    def test_a_long_token_is_cut(self) -> None:
        assert [len(token) for token in tokenize("x" * 600)] == [MAX_TOKEN, MAX_TOKEN, 90]


class TestTerms:
    def test_there_are_33_stop_words(self) -> None:
        assert len(STOP_WORDS) == 33
        assert analyze("the cup and a tray") == ["cup", "trai"]

    def test_possessives_go_before_stop_words_do(self) -> None:
        assert analyze("the's women's women\u2019s") == ["women", "women"]

    def test_case_is_folded_letter_by_letter(self) -> None:
        assert analyze("CUPS \u0130X \u039f\u03a3") == ["cup", "ix", "\u03bf\u03c3"]

    def test_two_letters_are_not_stemmed(self) -> None:
        assert analyze("us xs") == ["us", "xs"]
