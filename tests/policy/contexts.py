"""Turn contexts for prompt tests: one by hand per benchmark, and random ones for properties."""

from __future__ import annotations

from hypothesis import strategies as st

from actfirst.records import Observation, Pair, TurnContext

SECRET = "the-simulator-state"
REFERENCE = "the-reference-next-observation"

ALFWORLD = TurnContext(
    instruction="put a clean cup on the table.",
    history=(
        Pair("You are in a kitchen.\n\nYou see a sink 1.", "go to sink 1"),
        Pair("You arrive at sink 1.", "take cup 1 from sink 1"),
    ),
    observation=Observation(
        text="You pick up the cup 1.",
        admissible=("clean cup 1 with sink 1", "help", "look"),
        templates=("never {shown}",),
        objects=("never shown",),
        state=SECRET,
    ),
    turn=3,
)
WEBSHOP = TurnContext(
    instruction="find me a red shirt",
    history=(Pair("WebShop\nInstruction: \nfind me a red shirt", "search[red shirt]"),),
    observation=Observation(
        text="Instruction:\nfind me a red shirt\n[button] Back to Search [button_]",
        admissible=("click[back to search]", "click[b0001]"),
        templates=("search[<your query>]",),
        state=SECRET,
    ),
    turn=2,
)
SCIENCEWORLD = TurnContext(
    instruction="Boil water.",
    history=(Pair("You are in the kitchen.", "open door to hall"),),
    observation=Observation(
        text="The door is now open.",
        admissible=("look around", "boil water in pot"),
        templates=("look around", "pour OBJ in OBJ"),
        objects=("water", "pot"),
        state=SECRET,
    ),
    turn=2,
)
CONTEXTS = {"alfworld": ALFWORLD, "webshop": WEBSHOP, "scienceworld": SCIENCEWORLD}

# Fragments that have broken tokenisers and templates before, between ordinary words.
FRAGMENTS = [
    *("go to table 1", "You see a cup", "12", "3456", "it's", "'s", "don't", "...", "[button]", "price: $10"),
    *(
        "\n",
        "\n",
        "\n\n",
        "\n\n\n",
        " ",
        "  ",
        " \n",
        "\n ",
        "\t",
        "\r\n",
        "\r",
        "\u00a0",
        "\u3000",
        "\x85",
        "\x1f",
    ),
    *("<|im_end|>", "<|im_start|>assistant\n", "<think>", "</think>\n", "<action>", "{braces}", "{{", "}"),
    *(
        "{task_description}",
        "caf\u00e9",
        "e\u0301",
        "\u0301",
        "\u4f60\u597d",
        "\U0001f600",
        "\u200b",
        "\ufeff",
        "\\n",
    ),
]
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=4), max_size=12).map("".join)
pairs = st.builds(Pair, observation=texts, action=texts)


@st.composite
def contexts(draw: st.DrawFn, max_turns: int = 8) -> TurnContext:
    history = tuple(draw(st.lists(pairs, max_size=max_turns)))
    observation = Observation(
        text=draw(texts),
        admissible=tuple(draw(st.lists(texts, max_size=3))),
        templates=tuple(draw(st.lists(texts, max_size=2))),
        objects=tuple(draw(st.lists(texts, max_size=2))),
    )
    return TurnContext(draw(texts), history, observation, len(history) + 1)
