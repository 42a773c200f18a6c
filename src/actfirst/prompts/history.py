"""Chooses how much history a prompt keeps (paper, appendix "History Management").

The rule is the paper's loop: render with the whole history, and while the prompt is too long remove the
oldest complete pair and render again; the no-history template when none is left. Known token counts of the
pairs tell where that loop would end, so it is entered near its end and checked there. Nothing but whole pairs
is ever removed, and the stored history is not touched.
"""

from __future__ import annotations

from dataclasses import dataclass

from actfirst.errors import PromptTooLong
from actfirst.prompts.render import TemplateSet, pair_text, render, render_inverse_dynamics
from actfirst.prompts.tokens import PromptEncoder
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
) -> Prompt:
    """The prompt with the most history that has at most `limit` tokens; PromptTooLong if none has.

    `reference_observation` belongs to inverse dynamics alone: it is required there and refused elsewhere.
    """
    if (reference_observation is not None) is not (mode is Mode.INVERSE_DYNAMICS):
        raise ValueError(
            f"a {mode.value} prompt must {'' if reference_observation is None else 'not '}have a reference"
        )

    def attempt(retained: int) -> Prompt:
        if reference_observation is None:
            text = render(templates, mode, context, retained)
        else:
            text = render_inverse_dynamics(templates, context, retained, reference_observation)
        return Prompt(tuple(encoder.encode(text)), text, retained)

    longest = len(context.history)
    prompt = attempt(longest)
    if len(prompt.ids) <= limit:
        return prompt
    prompt = attempt(_likely_retained(encoder, context, len(prompt.ids) - limit))
    if len(prompt.ids) <= limit:
        # The whole history is known not to fit, so this ends below it.
        while len((larger := attempt(prompt.retained + 1)).ids) <= limit:
            prompt = larger
        return prompt
    while len(prompt.ids) > limit and prompt.retained > 0:
        prompt = attempt(prompt.retained - 1)
    if len(prompt.ids) > limit:
        raise PromptTooLong(
            f"the {mode.value} prompt needs {len(prompt.ids)} tokens without any history, but the prompt limit"
            f" is {limit}: raise the prompt limit (and the engine's context length) or leave this task out"
        )
    return prompt


def _likely_retained(encoder: PromptEncoder, context: TurnContext, excess: int) -> int:
    """How many pairs are left when oldest pairs worth `excess` tokens are gone."""
    for dropped, pair in enumerate(context.history, start=1):
        excess -= encoder.count_inside(pair_text(dropped, pair).removeprefix("\n") + "\n")
        if excess <= 0:
            return len(context.history) - dropped
    return 0
