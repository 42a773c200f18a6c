"""The words of a world, for whoever makes a tokenizer for small models that know this world and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


def _none(world: Any) -> Iterable[str]:
    return ()


@dataclass(frozen=True, slots=True)
class Lexicon:
    """What is one token although it is more than a word or less: prompts are what a small model spends its time on.

    - `phrases`: stock phrases of observations. None of them occurs in reasons or actions.
    - `pieces`: how text is cut before the usual rules cut it, as regular expressions, the first that fits counts.
    - `names`: texts with all names of an opened world, which a sample of walks might lack.
    - `wholes`: names of an opened world, and lines that hold one, that are one token each, however long they are.
    - `walks`: walks through training tasks, at most, whose words are learned.
    - `spellings`: how a token may hold a name, as texts with "{}" in its place; upper case and a space before it do not
      count. Tokens of one name begin alike in a new model: where much is copied from one spelling to another, and each
      name is rare.
    """

    phrases: tuple[str, ...] = ()
    pieces: tuple[str, ...] = ()
    names: Callable[[Any], Iterable[str]] = _none
    wholes: Callable[[Any], Iterable[str]] = _none
    walks: int = 900
    spellings: tuple[str, ...] = ()


NO_LEXICON = Lexicon()
"""Of a world that says nothing of its words: all of them are cut by the usual rules."""
