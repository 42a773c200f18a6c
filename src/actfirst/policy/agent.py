"""A model as an agent: prompts in, actions out. The only place where prompting meets an engine.

`respond` is the full think-then-act path (paper, "Thinking Budget"). `act_fast` is the separate action-only path: its
prompt leaves no room for reasoning, as `generation.fast_reasoning` says, and it stops at `</action>`. Only `act_fast`
in inverse-dynamics mode takes a reference observation.

With `generation.drafts` a fast action carries what it is expected to be: the reference action where there is one,
and the admissible actions. The engine verifies these as drafts; they reach no prompt and change no probability.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from actfirst.config.sections import Generation
from actfirst.engines.base import Draft, Engine, Priority, Sampling
from actfirst.policy.chat_template import Ending
from actfirst.policy.history import Prompt, fit
from actfirst.policy.parsing import ACTION, END_ACTION, extract_action
from actfirst.policy.render import TemplateSet
from actfirst.policy.thinking_budget import ThinkingBudget, think_then_act
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import FastAction, Mode, Response, TurnContext, digest

_MOST_DRAFTED = 256  # admissible actions; reading more would take longer than a draft saves


@dataclass(frozen=True)
class Policy:
    """An engine with its prompts and limits."""

    engine: Engine
    encoder: PromptEncoder
    templates: TemplateSet
    generation: Generation

    async def respond(self, context: TurnContext, seed: int, priority: Priority = Priority.FULL) -> Response:
        """A full response from the context alone. Raises PromptTooLong if it cannot be asked for."""
        prompt = self._prompt(Mode.FULL, context)
        limits = self.generation
        started = time.monotonic()
        response = await think_then_act(
            self.engine,
            self.encoder.decode,
            self.encoder.encode_markup,
            prompt.ids,
            ThinkingBudget(limits.first_stage, limits.response_limit, limits.continuation),
            temperature=limits.temperature,
            top_p=limits.top_p,
            top_k=limits.top_k,
            seed=seed,
            priority=priority,
        )
        return replace(response, started=started, ended=time.monotonic())

    async def act_fast(
        self,
        context: TurnContext,
        seed: int,
        reference_observation: str | None = None,
        expected_action: str | None = None,
    ) -> FastAction:
        """An action without reasoning: by inverse dynamics if a reference observation is given.

        `expected_action` is only ever a draft: it saves steps where it comes true.
        """
        mode = Mode.NEXT_ACTION if reference_observation is None else Mode.INVERSE_DYNAMICS
        ending = Ending(self.generation.fast_reasoning)
        prompt = self._prompt(mode, context, reference_observation)
        limits = self.generation
        sampling = Sampling(
            max_tokens=limits.fast_limit,
            temperature=limits.temperature,
            top_p=limits.top_p,
            top_k=limits.top_k,
            stop=(END_ACTION,),
            seed=seed,
            draft=self._draft(context, expected_action, ending) if limits.drafts else None,
        )
        completion = await self.engine.generate(prompt.ids, sampling, Priority.FAST)
        text = ending.prefill + self.encoder.decode(completion.token_ids)
        return FastAction(
            mode=mode,
            prompt_tokens=len(prompt.ids),
            token_count=len(completion.token_ids),
            text=text,
            action=extract_action(text),
            version=completion.version,
            prompt_digest=digest(prompt.ids),
        )

    def _draft(self, context: TurnContext, expected_action: str | None, ending: Ending) -> Draft:
        admissible = context.observation.admissible
        shown = admissible if len(admissible) <= _MOST_DRAFTED else ()

        def output(action: str) -> tuple[int, ...]:
            """What a student writes to submit an action: what the prompt holds already is not written again."""
            return self.encoder.encode_output(f"{ACTION}{action}{END_ACTION}".removeprefix(ending.prefill))

        return Draft(
            likely=output(expected_action) if expected_action is not None else (),
            possible=tuple(sorted({output(action) for action in shown})),
        )

    def _prompt(self, mode: Mode, context: TurnContext, reference_observation: str | None = None) -> Prompt:
        return prompt_for(self.encoder, self.templates, self.generation, mode, context, reference_observation)


def prompt_for(
    encoder: PromptEncoder,
    templates: TemplateSet,
    limits: Generation,
    mode: Mode,
    context: TurnContext,
    reference_observation: str | None = None,
) -> Prompt:
    """The prompt of a context in a mode. Raises PromptTooLong if it cannot fit."""
    ending = Ending.OPEN if mode is Mode.FULL else Ending(limits.fast_reasoning)
    return fit(encoder, templates, mode, context, limits.prompt_limit, reference_observation, ending)
