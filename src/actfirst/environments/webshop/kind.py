"""WebShop as an environment of actfirst."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING

from actfirst.environments.base import INLINE, EnvironmentKind, Hosting, PromptForms, World
from actfirst.environments.comparing import any_admissible
from actfirst.environments.findings import Check
from actfirst.environments.solving import Demonstrated, ReferenceSources, demonstrated_way
from actfirst.environments.webshop.lexicon import LEXICON
from actfirst.environments.webshop.rules import WebshopRules, has_search_bar
from actfirst.environments.webshop.section import WebshopSection
from actfirst.records import Observation, Task, TurnContext

if TYPE_CHECKING:
    from actfirst.environments.webshop.world import WebshopWorld

_INSTRUCTION = re.compile(r"^[ \t]*Instruction:[ \t]*\n[^\n]*(?:\n|\Z)", re.MULTILINE)
_PRICE = re.compile(r",? and price lower than [\d.]+ dollars")
_CALL = re.compile(r"(click|search)\s*+\[([^\]]*+)\]", re.IGNORECASE)
_QUERY = 4  # words of a search that is made at random


def _open(section: WebshopSection) -> World:
    from actfirst.environments.webshop.world import open_webshop

    return open_webshop(
        folder=section.folder,
        index=section.index,
        products=section.products,
        goals=section.goals,
        nouns=section.nouns,
        after_invalid=section.after_invalid,
        turn_limit=section.turn_limit,
        splits={"train": range(*section.train), "eval": range(*section.eval)},
    )


def _hosting(section: WebshopSection) -> Hosting:
    from actfirst.environments.webshop.world import fits_in_memory

    # Searching a full catalogue takes long enough to hold others up; its index is shared by all workers.
    return INLINE if fits_in_memory(section.folder) else Hosting(processes=True, per_worker=16)


def _checks() -> Sequence[Check]:
    from actfirst.environments.webshop.checks import CHECKS

    return CHECKS


def _oracle(world: WebshopWorld, task: Task) -> Iterator[tuple[str, ...]]:
    from actfirst.environments.webshop.oracle import oracle_candidates

    return oracle_candidates(world, task)


def _demonstrate(context: TurnContext) -> Demonstrated:
    from actfirst.environments.webshop.expert import expert_turn

    return expert_turn(context)


def _forget(context: TurnContext, rng: random.Random) -> Demonstrated:
    from actfirst.environments.webshop.expert import undecided_turn

    return undecided_turn(context, rng)


def rewrite(action: str, seen: Observation) -> Iterator[str]:
    """Spaces and capitals around the brackets; words after them."""
    # Nothing is looked for behind the last bracket: every call that begins before it has an end.
    if call := _CALL.search(action[: action.rfind("]") + 1]):
        verb, argument = call.group(1).lower(), call.group(2).strip()
        yield f"{verb}[{argument.lower() if verb == 'click' else argument}]"


def _without_price(instruction: str) -> str:
    """The shop draws the amount of the price clause anew."""
    return _PRICE.sub("", instruction)


def _action_values(observation: Observation) -> Mapping[str, Sequence[str]]:
    # The query is the student's to write, so search appears as a form; it is offered only with a search bar.
    actions = ["search[<your query>]"] if has_search_bar(observation) else []
    actions += [action for action in observation.admissible if action.startswith("click[")]
    return {"available_actions": actions}


def without_instruction(page: str) -> str:
    """A page without its instruction block: the line `Instruction:` and the goal on the next line.

    Only the first block goes: it is the page's header, later text belongs to the product.
    """
    return _INSTRUCTION.sub("", page, count=1)


def walk(rng: random.Random, instruction: str, seen: Observation) -> str:
    """Where there is a search bar, a search for some words of the instruction; else any admissible action.

    The first page lists nothing but a button that does nothing.
    """
    if not has_search_bar(seen):
        return any_admissible(rng, instruction, seen)
    words = instruction.split()
    return f"search[{' '.join(rng.sample(words, min(_QUERY, len(words))))}]"


KIND = EnvironmentKind(
    name="webshop",
    section=WebshopSection,
    open=_open,
    rules=WebshopRules(),
    executes_unlisted=True,  # a search has no place in a list
    prompts=PromptForms(
        files("actfirst.environments.webshop") / "templates", _action_values, without_instruction
    ),
    hosting=_hosting,
    sources=ReferenceSources(
        {"oracle": _oracle, "expert": partial(demonstrated_way, demonstrator=_demonstrate)},
        rewrite,
        _without_price,
        demonstrator=_demonstrate,
        novice=_forget,
        best=("oracle",),  # it knows the goal: the expert can only be as good
    ),
    checks=_checks,
    walk=walk,
    sample="webshop-sample",
    lexicon=LEXICON,
)
