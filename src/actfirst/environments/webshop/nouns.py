"""Which words of a product title are nouns: the reward compares those of two titles.

The original asks spaCy's small English model, and so does `spacy_nouns`. `simple_nouns` needs no installation and is
used where a recipe says so: no statistics, only a list of the words that titles use and that are no
nouns, and the endings of adverbs, participles and some adjectives. It calls more words nouns than spaCy does, so
it finds a common noun slightly more often; titles that are equal, or share nothing, come out the same.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib.util import find_spec

Nouns = Callable[[str], Sequence[str]]
"""From a title to its nouns in lower case, in order, repetitions included."""

SPACY_MODEL = "en_core_web_sm"
"""The model that the original loads."""

SPACY_INSTALL = "pip install 'actfirst[spacy]', then python -m spacy download en_core_web_sm"

_TAGS = ("NOUN", "PROPN")
_WORD = re.compile(r"[^\W\d_]+(?:'[^\W\d_]+)?", re.UNICODE)
# Determiners, pronouns, prepositions, conjunctions, auxiliaries.
_LITTLE_WORDS = """
a an the this that these those my your his her its our their all any both each every no some such and or
but nor so yet if than as at by for from in into of off on onto out over per plus to under up upon via
with within without about above across after against along among around before behind below beneath
beside between beyond down during except inside like near outside since through throughout till toward
until is are was were be been being am do does did has have had can could may might must shall should
will would not i me we us you he him she it they them who whom which what whose where when why how
"""
# Adjectives and adverbs that titles are full of.
_DESCRIPTIONS = """
new best good better great big small large extra mini slim thin thick long short high low tall wide deep
light heavy soft hard hot cold warm cool dry wet fresh clean pure natural organic real true genuine
original classic modern vintage retro rustic casual formal elegant cute sexy fashionable stylish
beautiful pretty perfect ideal premium professional portable foldable adjustable removable reusable
washable waterproof wireless digital electric electronic manual automatic dual double single triple
multiple various different easy quick fast safe strong durable lightweight breathable comfortable
compact universal compatible full half front back top very more most less only just also too ever never
always free black white red blue green yellow orange purple pink brown grey gray navy beige
"""
_NO_NOUNS = frozenset((_LITTLE_WORDS + _DESCRIPTIONS).split())
_NO_NOUN_ENDINGS = ("ly", "ful", "less", "able", "ible", "ous", "ive")
_SHORTEST_WITH_ENDING = 6


@lru_cache(maxsize=16_384)
def simple_nouns(title: str) -> tuple[str, ...]:
    """Words that are not on the list of others and do not end like adverbs or adjectives."""
    return tuple(word for word in _WORD.findall(title.lower()) if _may_be_noun(word))


def _may_be_noun(word: str) -> bool:
    if len(word) < 2 or word in _NO_NOUNS:
        return False
    return len(word) < _SHORTEST_WITH_ENDING or not word.endswith(_NO_NOUN_ENDINGS)


def has_spacy() -> bool:
    """Whether spaCy and its model are installed. Looked for, not imported: that takes seconds."""
    return all(find_spec(name) is not None for name in ("spacy", SPACY_MODEL))


def spacy_nouns() -> Nouns:
    import spacy

    language = spacy.load(SPACY_MODEL, disable=["parser", "ner", "lemmatizer"])

    @lru_cache(maxsize=16_384)
    def nouns(title: str) -> tuple[str, ...]:
        return tuple(token.text.lower() for token in language(title) if token.pos_ in _TAGS)

    return nouns
