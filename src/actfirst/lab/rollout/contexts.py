"""The fixed contexts of the experiment: first observations of training tasks, as prompts of both modes.

Full responses use the think-then-act prompt, fast actions the action-only prompt without a reference.
"""

from __future__ import annotations

from dataclasses import dataclass

from actfirst.config.config import Config
from actfirst.lab.drawing import draw_tasks
from actfirst.policy.history import fit
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Mode, TurnContext
from actfirst.training.parts import Stage


@dataclass(frozen=True, slots=True)
class BenchContext:
    """One task's context, tokenised once: timing excludes tokenisation."""

    task_id: str
    fast_ids: tuple[int, ...]
    full_ids: tuple[int, ...]


async def make_contexts(
    stage: Stage, encoder: PromptEncoder, config: Config, count: int, seed: int
) -> list[BenchContext]:
    """`count` contexts of training tasks, in proportion to task types."""
    templates, limit = stage.templates, config.rollout.generation.prompt_limit
    contexts = []
    async with stage.pool.lease() as environment:
        for task in draw_tasks(stage.world.tasks("train"), count, seed):
            instruction, observation = await environment.reset(task)
            context = TurnContext(instruction, (), observation, 1)
            fast, full = (
                fit(encoder, templates, mode, context, limit) for mode in (Mode.NEXT_ACTION, Mode.FULL)
            )
            contexts.append(BenchContext(task.id, fast.ids, full.ids))
    return contexts
