"""Addresses of servers, and vocabularies: differences that mean nothing are no reason to refuse."""

from __future__ import annotations

import pytest

from actfirst.config.engine_sections import ServerSection
from actfirst.training.proofs import same_but_for_padding

WORDS = {"a": 0, "b": 1, "<|im_end|>": 2}


@pytest.mark.parametrize(
    "url", ["http://host:8000", "http://host:8000/", "http://host:8000/v1", "http://host:8000/v1/"]
)
def test_an_address_may_end_in_v1(url: str) -> None:
    assert ServerSection(urls=(url,)).urls == ("http://host:8000",)


@pytest.mark.parametrize(
    ("theirs", "same"),
    [
        (WORDS, True),
        ({**WORDS, "<|extra_0|>": 3, "[unused1]": 4}, True),
        ({**WORDS, "<think>": 3}, False),
        ({"a": 1, "b": 0, "<|im_end|>": 2}, False),
        ({"a": 0, "<pad>": 1, "<|im_end|>": 2}, False),
    ],
)
def test_vocabularies_may_differ_in_padding_alone(theirs: dict[str, int], same: bool) -> None:
    assert same_but_for_padding(WORDS, theirs) is same
    assert same_but_for_padding(theirs, WORDS) is same
