"""A rule-based shopper that knows only what it has read, and says how it arrives at each action.

It is made for instructions as the shop makes them from products ("Find me ... with color: black, and size: 7, and price
lower than 60.00 dollars"). It searches for everything that is asked but the price, opens the first result that it has
not opened and that is not too dear, looks whether all wanted options are there, goes back if not, else chooses them and
buys. It is not the oracle, which knows the product: a page of results says nothing of options, so it has to look.

Its words are the data from which a small teacher learns, so they are regular, and each line follows from the text
before it by copying or by one lookup. It goes through results by the lines of what can be done, as prompts list it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Literal

from actfirst.environments.solving import Demonstrated
from actfirst.environments.webshop.rules import has_search_bar, parse_action
from actfirst.records import TurnContext

Stage = Literal["search", "choose", "leave", "options", "buy", "details"]
"""What a turn is for: to search, to open a result, to go back from a product that lacks an option, to choose an option,
to buy, or to leave a page of details."""

_PRICE = re.compile(r",? and price lower than ([\d.]+) dollars$")
_OPTIONS = re.compile(r" with ((?:(?! with )[a-z ])+: .*)$")
_NEXT_OPTION = re.compile(r", and (?=[a-z ]+: )")
_OPENING = "find me "
_NO_QUERY = re.compile(r"[\[\]\s]+")  # brackets would end an action too early
_RESULT = re.compile(
    r"^\[(clicked )?button\] (\S+) \[(?:clicked )?button_\]\n(.*)\n(\$([\d.]+).*)$", re.MULTILINE
)
_RESULTS = re.compile(r"^Page \d+ \(Total results: \d+\)$", re.MULTILINE)
_PAGE = "Instruction:"
_BACK, _NEXT, _BUY, _HOME = "click[< prev]", "click[next >]", "click[buy now]", "click[back to search]"
_DETAILS = ("click[description]", "click[features]", "click[reviews]")


@dataclass(frozen=True, slots=True)
class Wish:
    """What an instruction asks for: `text` without its price, options as (group, value), the highest price as it is
    written, empty for any."""

    text: str
    options: tuple[tuple[str, str], ...]
    cap: str


def read_wish(instruction: str) -> Wish:
    price = _PRICE.search(instruction)
    text = instruction[: price.start()] if price else instruction
    if text.lower().startswith(_OPENING):
        text = text[len(_OPENING) :]
    wanted = _OPTIONS.search(text)
    options = tuple(_option(one) for one in _NEXT_OPTION.split(wanted.group(1))) if wanted else ()
    return Wish(text, options, price.group(1) if price else "")


def _option(text: str) -> tuple[str, str]:
    group, _, value = text.partition(": ")
    return group, value


_Step = tuple[tuple[str, ...], str]
"""A decision: the lines that lead to it, and the action."""


@dataclass(frozen=True, slots=True)
class _Result:
    """A product on a page of results; `entry` are its lines there."""

    opened: bool
    asin: str
    entry: str
    price: float


def expert_turn(context: TurnContext) -> Demonstrated:
    """Decide from what the context shows."""
    shopper = _Shopper(context, read_wish(context.instruction))
    return _said(shopper.needs(), shopper.decide(), shopper.stage())


def undecided_turn(context: TurnContext, rng: Random) -> Demonstrated:
    """What a shopper does who cannot decide: it reads about a product, and again. What it says of what it needs is
    true; only what follows from that is not. Nothing it does wrong is right elsewhere: what a student is cured of takes
    nothing else away."""
    right = _Shopper(context, read_wish(context.instruction))
    step, details = right.decide(), right.details()
    if right.stage() in ("leave", "options", "buy") and details:
        step = (("I look at details.",), rng.choice(details))
    return _said(right.needs(), step, right.stage())


def _said(needs: tuple[str, ...], step: _Step, stage: Stage) -> Demonstrated:
    thoughts, action = step
    return Demonstrated("\n".join((*needs, *thoughts)), action, stage)


class _Shopper:
    def __init__(self, context: TurnContext, wish: Wish) -> None:
        self._context = context
        self._wish = wish
        self._admissible = {action.lower() for action in context.observation.admissible}
        page = _page(context)
        self._results = [
            _Result(bool(mark), asin, f"[button] {asin} [button_]\n{title}\n{tag}", float(price))
            for mark, asin, title, tag, price in _RESULT.findall(page)
        ]
        self._chosen = _chosen(context)

    def stage(self) -> Stage:
        if has_search_bar(self._context.observation):
            return "search"
        if _NEXT in self._admissible:
            return "choose"
        if _BUY not in self._admissible:
            return "details"
        values = [value for _, value in self._wish.options]
        if not all(map(self._offered, values)):
            return "leave"
        return "buy" if self._chosen.issuperset(values) else "options"

    def needs(self) -> tuple[str, ...]:
        """What matters on this page of what is asked."""
        match self.stage():
            case "search":
                return (self._context.instruction,)
            case "choose":
                return (self._cap(),)
            case "details":
                return (self._options(),)
        return (self._options(self._mark),)

    def decide(self) -> _Step:
        match self.stage():
            case "search":
                query = _NO_QUERY.sub(" ", self._wish.text.lower()).strip()
                return ("I search for it.",), f"search[{query}]"
            case "choose":
                return self._choose()
            case "details":
                return ("This is a page of details.",), _BACK
            case "leave":
                return ("I go back.",), _BACK
            case "buy":
                return ("I buy it.",), _BUY
        group, value = next(one for one in self._wish.options if one[1] not in self._chosen)
        return (f"I choose {group}: {value}.",), f"click[{value}]"

    def details(self) -> list[str]:
        """The pages about a product that can be opened."""
        return [action for action in _DETAILS if action in self._admissible]

    def _choose(self) -> _Step:
        lines = [_listed(_NEXT)]
        for result in self._results:
            line = _listed(_click(result.asin))
            lines.append(line)
            if result.opened:
                continue
            lines.append(result.entry)
            if self._wish.cap and result.price > float(self._wish.cap):
                lines += ["It costs too much.", line]
            else:
                return (*lines, "It fits."), _click(result.asin)
        if self._results:
            return (*lines, "I look at more."), _NEXT
        return ("There are no more.",), _HOME

    def _offered(self, value: str) -> bool:
        return _click(value) in self._admissible and parse_action(_click(value)) is not None

    def _mark(self, value: str) -> str:
        if value in self._chosen:
            return " (chosen)"
        return " (here)" if self._offered(value) else " (not here)"

    def _options(self, mark: Callable[[str], str] = lambda value: "") -> str:
        """All that is needed, in the order of the instruction, each with its mark: a small model copies in one go more
        easily than it finds again where a part begins."""
        needed = ", and ".join(f"{group}: {value}{mark(value)}" for group, value in self._wish.options)
        return f"It needs {needed}." if needed else "It needs no options."

    def _cap(self) -> str:
        return f"It may cost {self._wish.cap}." if self._wish.cap else "It may cost anything."


def _click(target: str) -> str:
    return f"click[{target.lower()}]"


def _listed(action: str) -> str:
    """An action as prompts list it."""
    return f"'{action}',"


def _page(context: TurnContext) -> str:
    """The page that is shown, or was last shown if a message stands in its place."""
    texts = [context.observation.text, *(pair.observation for pair in reversed(context.history))]
    return next((text for text in texts if _PAGE in text), "")


def _chosen(context: TurnContext) -> set[str]:
    """What was clicked since the product was opened. The shop marks most of it, but not values with quotes."""
    clicked: set[str] = set()
    for pair in context.history:
        if _RESULTS.search(pair.observation) or "\n[button] Search [button_]" in pair.observation:
            clicked.clear()
        parsed = parse_action(pair.action)
        if parsed is not None and parsed.verb == "click":
            clicked.add(parsed.argument)
    return clicked
