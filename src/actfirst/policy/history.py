"""Chooses how much history a prompt keeps (paper, appendix "History Management").

For the paper's prompts the rule is the paper's loop: render with the whole history, and while the prompt is too long
remove the oldest complete pair and render again; the no-history template when none is left. Known token counts of the
pairs tell where that loop would end, so it is entered near its end and checked there. Nothing but whole pairs is ever
removed, and the stored history is not touched. A pair's text never changes, so what is tokenised in a turn is what is
new in it.

Growing prompts are cut in blocks. A history that loses its oldest pair in every turn shares no prefix with the turn
before, so the number of pairs that are left out is rounded up to a multiple of 8, or of 4, 2 or 1 if 8 would take more
than half of the pairs that fit. The cut then stays where it is until the block is used up, and prefixes survive as many
turns. Near the limit the longer of a turn's prompts may be cut earlier than the shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from actfirst.errors import PromptTooLong
from actfirst.policy.chat_template import Ending
from actfirst.policy.foreign_text import MARK
from actfirst.policy.render import TemplateSet, pair_text, render_around
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Mode, TurnContext


@dataclass(frozen=True, slots=True)
class Prompt:
    """A request's prompt: ids after the chat template, the user message, the number of pairs it shows."""

    ids: tuple[int, ...]
    text: str
    retained: int


def fit(
    encoder: PromptEncoder,
    templates: TemplateSet,
    mode: Mode,
    context: TurnContext,
    limit: int,
    reference_observation: str | None = None,
    ending: Ending = Ending.OPEN,
) -> Prompt:
    """The prompt with the most history that has at most `limit` tokens; PromptTooLong if none has.

    `reference_observation` belongs to inverse dynamics alone: it is required there and refused elsewhere.
    Whatever fills a template is not ours: control tokens in it are encoded as text.
    """
    if (reference_observation is not None) is not (mode is Mode.INVERSE_DYNAMICS):
        raise ValueError(
            f"a {mode.value} prompt must {'' if reference_observation is None else 'not '}have a reference"
        )

    blocks = [encoder.mark(pair_text(number, pair)) for number, pair in enumerate(context.history, start=1)]
    longest = len(blocks)

    def parts(retained: int) -> tuple[str, list[str], str]:
        head, tail = render_around(templates, mode, context, retained, reference_observation, encoder.mark)
        return head, blocks[longest - retained :], tail

    def size(retained: int) -> int:
        return encoder.count_around(*parts(retained), ending)

    retained = longest
    if (needed := size(longest)) > limit:
        retained = _likely_retained(encoder, blocks, needed - limit)
        if size(retained) <= limit:
            # The whole history is known not to fit, so this ends below it.
            while size(retained + 1) <= limit:
                retained += 1
        else:
            while (needed := size(retained)) > limit and retained > 0:
                retained -= 1
        retained -= _rounding(longest - retained, retained, templates.cut)
    if not retained and (needed := size(0)) > limit:
        raise PromptTooLong(
            f"the {mode.value} prompt needs {needed} tokens without any history, but the prompt limit"
            f" is {limit}: raise the prompt limit (and the engine's context length) or leave this task out"
        )
    head, kept, tail = parts(retained)
    text = "".join((head, *kept, tail)).replace(MARK, "")
    return Prompt(tuple(encoder.encode_around(head, kept, tail, ending)), text, retained)


def _rounding(dropped: int, fitting: int, block: int) -> int:
    """How many pairs more are left out, so that `dropped` becomes a multiple of the block or of a half of it."""
    while block > 1 and 2 * (block - 1) > fitting:
        block //= 2
    return -dropped % block


def _likely_retained(encoder: PromptEncoder, blocks: Sequence[str], excess: int) -> int:
    """How many pairs are left when oldest pairs worth `excess` tokens are gone."""
    for dropped, block in enumerate(blocks, start=1):
        excess -= encoder.count_block(block)
        if excess <= 0:
            return len(blocks) - dropped
    return 0
