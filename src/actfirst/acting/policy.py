"""A model as an agent: prompts in, actions out. The only place where prompting meets an engine.

`respond` is the full think-then-act path (paper, "Thinking Budget"); `act_fast` is the action-only path that
stops at `</action>`. Only `act_fast` in inverse-dynamics mode takes a reference observation.
"""

from __future__ import annotations

from dataclasses import dataclass

from actfirst.config.models import Generation
from actfirst.engines.base import Engine, Priority, Sampling
from actfirst.engines.thinking_budget import ThinkingBudget, think_then_act
from actfirst.prompts.history import Prompt, fit
from actfirst.prompts.parse import extract_action
from actfirst.prompts.render import TemplateSet
from actfirst.prompts.tokens import PromptEncoder
from actfirst.records import FastAction, Mode, Response, TurnContext

ACTION_END = "</action>"


@dataclass(frozen=True)
class Policy:
    """An engine with its prompts and limits."""

    engine: Engine
    encoder: PromptEncoder
    templates: TemplateSet
    generation: Generation

    async def respond(self, context: TurnContext, seed: int, priority: Priority = Priority.FULL) -> Response:
        """A full response from the context alone. Raises PromptTooLong if it cannot be asked for."""
        prompt = self._fit(Mode.FULL, context, None)
        limits = self.generation
        return await think_then_act(
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

    async def act_fast(
        self, context: TurnContext, seed: int, reference_observation: str | None = None
    ) -> FastAction:
        """An action without reasoning: by inverse dynamics if a reference observation is given."""
        mode = Mode.NEXT_ACTION if reference_observation is None else Mode.INVERSE_DYNAMICS
        prompt = self._fit(mode, context, reference_observation)
        limits = self.generation
        sampling = Sampling(
            limits.fast_limit, limits.temperature, limits.top_p, limits.top_k, (ACTION_END,), seed
        )
        completion = await self.engine.generate(prompt.ids, sampling, Priority.FAST)
        text = self.encoder.decode(completion.token_ids)
        return FastAction(
            mode=mode,
            prompt_tokens=len(prompt.ids),
            token_count=len(completion.token_ids),
            text=text,
            action=extract_action(text),
            version=completion.version,
        )

    def _fit(self, mode: Mode, context: TurnContext, reference_observation: str | None) -> Prompt:
        return fit(
            self.encoder, self.templates, mode, context, self.generation.prompt_limit, reference_observation
        )
