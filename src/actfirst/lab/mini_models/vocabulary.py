"""What small models of a world read and write, and the tokenizer that is made of it: of training tasks alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from random import Random
from typing import TYPE_CHECKING

from actfirst.environments.base import Environment, World
from actfirst.environments.registry import Kind
from actfirst.lab.pocket_models.tokenizer import train_tokenizer
from actfirst.policy.render import TemplateSet, read_templates, render
from actfirst.policy.thinking_budget import early_stop
from actfirst.records import Mode, Pair, Task, TurnContext
from actfirst.training.sft_sources import full_response

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_STRAY = 0.3


def make_tokenizer(kind: Kind, world: World, walks: int) -> PreTrainedTokenizerFast:
    """A tokenizer that has seen the names of the world and the texts of some walks through training tasks."""
    templates = [read_templates(kind.prompts), read_templates(kind.prompts, "growing")]
    texts = _texts(kind, world, min(walks, kind.lexicon.walks), templates)
    lexicon = kind.lexicon
    return train_tokenizer(texts, lexicon.names(world), lexicon, templates, lexicon.wholes(world))


def _texts(kind: Kind, world: World, walks: int, templates: Sequence[TemplateSet]) -> Iterator[str]:
    yield early_stop()
    rng = Random("mini vocabulary")
    tasks = world.tasks("train")
    demonstrator, novice = kind.sources.demonstrator, kind.sources.novice
    assert demonstrator is not None
    assert novice is not None
    environment = world.open()
    for task in rng.sample(tasks, min(walks, len(tasks))):
        for context in _walk(kind, environment, world.turn_limit, task, rng):
            for one in templates:
                yield render(one, Mode.FULL, context, len(context.history))
            for turn in (demonstrator(context), novice(context, rng)):
                yield full_response(turn.reasoning, turn.action)
    environment.close()


def _walk(
    kind: Kind, environment: Environment, turn_limit: int, task: Task, rng: Random
) -> Iterator[TurnContext]:
    demonstrator = kind.sources.demonstrator
    assert demonstrator is not None
    instruction, seen = environment.reset(task)
    history: tuple[Pair, ...] = ()
    while not seen.done and len(history) < turn_limit:
        context = TurnContext(instruction, history, seen, len(history) + 1)
        yield context
        action = demonstrator(context).action
        if rng.random() < _STRAY:
            action = kind.walk(rng, instruction, seen)
        history = (*history, Pair(seen.text, action))
        seen = environment.step(action)
