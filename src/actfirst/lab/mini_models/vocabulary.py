"""What the models for the real ALFWorld games read and write, and the tokenizer that is made of it.

It is built as the pocket models' one is: a name with its number is one token, and so is each sentence of the prompts.
All of it comes from training games.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING

from actfirst.environments.alfworld.expert import confused_turn, expert_turn
from actfirst.environments.alfworld.kind import KIND
from actfirst.environments.alfworld.prior import training_prior
from actfirst.environments.alfworld.world import AlfworldWorld
from actfirst.lab.pocket_models.tokenizer import train_tokenizer
from actfirst.policy.render import TemplateSet, read_templates, render
from actfirst.policy.thinking_budget import early_stop
from actfirst.records import Mode, Pair, Task, TurnContext
from actfirst.training.sft_sources import full_response

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_STRAY = 0.3


def make_tokenizer(world: AlfworldWorld, walks: int) -> PreTrainedTokenizerFast:
    """A tokenizer that has seen the names of all training games and the texts of some walks through them."""
    tasks = world.tasks("train")
    highest: Counter[str] = Counter()
    for task in tasks:
        game = world.game(task)
        for thing in (*game.object_type, *game.receptacle_type):
            kind, _, number = game.names[thing].rpartition(" ")
            highest[kind] = max(highest[kind], int(number))
    templates = [read_templates(KIND.prompts), read_templates(KIND.prompts, "growing")]
    return train_tokenizer(_texts(world, tasks, walks, templates), highest, templates)


def _texts(
    world: AlfworldWorld, tasks: Sequence[Task], walks: int, templates: Sequence[TemplateSet]
) -> Iterator[str]:
    yield early_stop()
    rng = Random("mini vocabulary")
    for task in rng.sample(tasks, min(walks, len(tasks))):
        for context in _walk(world, task, rng):
            for one in templates:
                yield render(one, Mode.FULL, context, len(context.history))
            for turn in (
                expert_turn(context, experience=training_prior()),
                confused_turn(context, rng, training_prior()),
            ):
                yield full_response(turn.reasoning, turn.action)


def _walk(world: AlfworldWorld, task: Task, rng: Random) -> Iterator[TurnContext]:
    environment = world.open()
    instruction, seen = environment.reset(task)
    history: tuple[Pair, ...] = ()
    while not seen.done and len(history) < world.turn_limit:
        context = TurnContext(instruction, history, seen, len(history) + 1)
        yield context
        action = expert_turn(context, experience=training_prior()).action
        if rng.random() < _STRAY:
            action = rng.choice(seen.admissible)
        history = (*history, Pair(seen.text, action))
        seen = environment.step(action)
