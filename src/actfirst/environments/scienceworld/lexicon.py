"""The words of ScienceWorld: the usual list of commands is one token, and numbers are cut into digits.

What tasks name by several words (rooms, boxes, pots) is one token each, so that it is found and copied by one look.
"""

from __future__ import annotations

from actfirst.environments.lexicon import Lexicon

_COMMANDS = (
    *("activate OBJ", "close OBJ", "deactivate OBJ", "dunk OBJ in OBJ", "eat OBJ", "flush OBJ", "focus on OBJ"),
    *(
        "go OBJ",
        "inventory",
        "look around",
        "look at OBJ",
        "look in OBJ",
        "mix OBJ",
        "move OBJ to OBJ",
        "open OBJ",
    ),
    *("pick up OBJ", "pour OBJ in OBJ", "put down OBJ", "read OBJ", "reset task", "task", "teleport OBJ"),
    *("use OBJ on OBJ", "wait", "wait1"),
)
"""What can be done in tasks without electricity, as prompts list it."""

_PHRASES = (
    ", ".join(f"'{command}'" for command in _COMMANDS),
    "This room is called the",
    "This outside location is called the",
    ". In it, you see: ",
    ". Here you see: ",
    "\tthe agent",
    "\ta substance called air",
    "You also see:",
    " (that is open)",
    " (that is closed)",
    "(containing nothing)",
    ", which is turned off. In the sink is: nothing.",
    "No known action matches that input.",
)
_PIECES = (
    r" ?(?:art studio|living room)",
    r" ?\b[a-z]+ box\b",
    r" ?flower pot [0-9]\b",
    r"\t(?:an?|the)(?= )",
    r"\tA door to the(?= )",
    r"', '(?:door to (?=\p{L}))?",
    r" ?-?\p{N}(?:\.0)?",
)

LEXICON = Lexicon(_PHRASES, _PIECES, walks=120, spellings=("{}",))
