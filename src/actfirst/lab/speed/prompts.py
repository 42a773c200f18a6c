"""`actfirst bench prompts`: what the two orders of prompts (`environment.prompts`) cost, on the same episodes.

Episodes are played at random, so that both orders see the same contexts. Each turn asks for a fast action and beside it
for a full response, all tasks at once, as rollouts do; a request generates one token, so what is left is prefill. An
update is made of the contexts of these episodes with random responses: all contexts in the order of the episodes
(`rollout.responses = "all"`), or a draw from all of them (`"admitted"`).
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import get_args

from actfirst.config.config import Config
from actfirst.engines.base import Engine, Priority, Sampling
from actfirst.engines.open import open_engine
from actfirst.environments.base import PromptOrder
from actfirst.environments.registry import kind_of, open_world
from actfirst.lab.spread import Spread, Told
from actfirst.learning.packing import input_length
from actfirst.learning.update import Learner
from actfirst.policy.chat_template import Ending
from actfirst.policy.history import fit
from actfirst.policy.render import TemplateSet, read_templates
from actfirst.policy.tokens import PromptEncoder, open_encoder
from actfirst.records import Mode, Pair, TurnContext, TurnSample
from actfirst.rollout.together import together

ORDERS: tuple[PromptOrder, ...] = get_args(PromptOrder)
Prompts = tuple[tuple[int, ...], tuple[int, ...]]  # of a turn: the fast action's, the full response's


@dataclass(frozen=True, slots=True)
class Prefill:
    """Prompts of some episodes: their tokens, those that the engine computed, those that it had, and those that were
    new; seconds by the clock and of the processor.

    A token is new if no earlier prompt of its episode begins with everything up to it.
    """

    order: PromptOrder
    turns: int
    tokens: int
    prefilled: int
    cached: int
    new: int
    seconds: float
    cpu: float


@dataclass
class Updates:
    """Updates of one kind. Tokens computed if every sample is computed alone, if micro-batches are made by falling
    length, and as they are made; seconds of each round."""

    order: PromptOrder
    responses: str
    supervised: int = 0
    alone: int = 0
    by_length: int = 0
    computed: int = 0
    seconds: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)


def walk(config: Config, tasks: int, turns: int) -> list[list[TurnContext]]:
    """The contexts of `tasks` random episodes of at most `turns` turns."""
    kind, world = kind_of(config.environment), open_world(config.environment)
    episodes = []
    for number, task in enumerate(world.tasks("train")[:tasks]):
        rng, environment = random.Random(f"walk {config.run.seed} {number}"), world.open()
        try:
            instruction, seen = environment.reset(task)
            contexts = [TurnContext(instruction, (), seen, 1)]
            while len(contexts) < turns and not seen.done:
                action = kind.walk(rng, instruction, seen)
                history = (*contexts[-1].history, Pair(seen.text, action))
                seen = environment.step(action)
                contexts.append(TurnContext(instruction, history, seen, len(contexts) + 1))
        finally:
            environment.close()
        episodes.append(contexts)
    return episodes


def prompts(
    config: Config, encoder: PromptEncoder, templates: TemplateSet, contexts: Sequence[TurnContext]
) -> list[Prompts]:
    limits = config.rollout.generation

    def ids(mode: Mode, context: TurnContext, ending: Ending) -> tuple[int, ...]:
        return fit(encoder, templates, mode, context, limits.prompt_limit, None, ending).ids

    fast = Ending(limits.fast_reasoning)
    return [(ids(Mode.NEXT_ACTION, c, fast), ids(Mode.FULL, c, Ending.OPEN)) for c in contexts]


def new_tokens(episode: Sequence[Prompts]) -> int:
    """Tokens of an episode's prompts that are new. Sorted, a prompt shares most with a neighbour."""
    texts = sorted(prompt for turn in episode for prompt in turn)
    shared = sum(_common(one, other) for one, other in pairwise(texts))
    return sum(map(len, texts)) - shared


def _common(one: Sequence[int], other: Sequence[int]) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other)) if a != b), min(len(one), len(other)))


def measure_prefill(
    config: Config, student: Path, tasks: int, turns: Sequence[int], told: Told
) -> list[Prefill]:
    """Both orders over episodes of each number of turns, each on a fresh engine."""
    encoder, kind = open_encoder(student), kind_of(config.environment)
    rows = []
    for number, length in enumerate(turns):
        episodes = walk(config, tasks, length)
        for place, order in enumerate(ORDERS, start=1):
            templates = read_templates(kind.prompts, order)
            asked = [prompts(config, encoder, templates, contexts) for contexts in episodes]
            rows.append(asyncio.run(_play(config, student, asked, order, length)))
            told(number * len(ORDERS) + place, len(turns) * len(ORDERS), f"{order}, {length} turns")
    return rows


async def _play(
    config: Config, student: Path, episodes: Sequence[Sequence[Prompts]], order: PromptOrder, turns: int
) -> Prefill:
    """What the episodes cost on a fresh engine."""
    engine = open_engine(config.engine, student)
    try:
        await engine.generate(episodes[0][0][0][:1], Sampling(1, seed=0))  # its first request warms it up
        before, cpu, begun = engine.stats(), time.process_time(), time.perf_counter()
        await together(_episode(engine, episode) for episode in episodes)
        seconds, cpu, stats = time.perf_counter() - begun, time.process_time() - cpu, engine.stats()
    finally:
        await engine.close()
    return Prefill(
        order=order,
        turns=turns,
        tokens=sum(len(prompt) for episode in episodes for turn in episode for prompt in turn),
        prefilled=stats.prefilled_tokens - before.prefilled_tokens,
        cached=stats.cached_tokens - before.cached_tokens,
        new=sum(map(new_tokens, episodes)),
        seconds=seconds,
        cpu=cpu,
    )


async def _episode(engine: Engine, episode: Sequence[Prompts]) -> None:
    responses = []
    for fast, full in episode:
        responses.append(asyncio.ensure_future(engine.generate(full, Sampling(1, seed=0))))
        await engine.generate(fast, Sampling(1, seed=0), Priority.FAST)
    await asyncio.gather(*responses)


def measure_updates(
    config: Config, student: Path, tasks: int, turns: int, response: int, rounds: int, told: Told
) -> list[Updates]:
    """Updates of `learner.batch_size` samples in both orders, which take turns; the first round is not counted."""
    encoder, kind, episodes = open_encoder(student), kind_of(config.environment), walk(config, tasks, turns)
    size, cases = config.learner.batch_size, []
    learner = Learner(student, config.learner)
    for responses in ("all", "admitted"):
        for order in ORDERS:
            templates = read_templates(kind.prompts, order)
            asked = [prompts(config, encoder, templates, contexts) for contexts in episodes]
            samples = _samples(asked, response)
            if responses == "admitted":
                samples = random.Random("admitted").sample(samples, min(len(samples), 2 * size))
            case, batches = Updates(order, responses), [samples[n : n + size] for n in range(0, 2 * size, size)]
            cases.append((case, [batch for batch in batches if batch]))
    for number in range(rounds + 1):
        for place, (case, batches) in enumerate(cases, start=1):
            begun, used = time.perf_counter(), time.process_time()
            done = [learner.update(batch) for batch in batches]
            took, cpu = time.perf_counter() - begun, time.process_time() - used
            told(number * len(cases) + place, (rounds + 1) * len(cases), f"{case.order}, {case.responses}")
            if number:
                case.seconds.append(took / len(batches))
                case.cpu.append(cpu / len(batches))
                continue
            case.supervised = sum(one.supervised_tokens for one in done)
            case.computed = sum(int(one.extra["computed_tokens"]) for one in done)
            case.alone = sum(input_length(sample) for batch in batches for sample in batch)
            case.by_length = sum(_by_length(batch, config.learner.token_budget) for batch in batches)
    return [case for case, _ in cases]


def _samples(episodes: Sequence[Sequence[Prompts]], response: int) -> list[TurnSample]:
    rng, samples = random.Random("responses"), []
    for number, episode in enumerate(episodes):
        for turn, (_, prompt) in enumerate(episode, start=1):
            tokens = tuple(rng.choice(prompt) for _ in range(response))
            advantages = tuple(rng.uniform(-1.0, 1.0) for _ in tokens)
            name, flat = f"{number}/{turn}", (-1.0,) * response
            samples.append(
                TurnSample(
                    name, str(number), str(number), turn, prompt, tokens, (1,) * response, flat, advantages, 0
                )
            )
    return samples


def _by_length(samples: Sequence[TurnSample], budget: int) -> int:
    """Tokens computed with micro-batches by falling length, where what begins alike is together by chance."""
    rows, room, batch = 0, budget, list[TurnSample]()
    for sample in [*sorted(samples, key=input_length, reverse=True), None]:
        if sample is None or input_length(sample) > room:
            rows += _rows(batch)
            room, batch = budget, []
        if sample is not None:
            batch.append(sample)
            room -= input_length(sample)
    return rows


def _rows(batch: Sequence[TurnSample]) -> int:
    """Distinct tokens of a micro-batch."""
    inputs = sorted((s.prompt_ids + s.token_ids)[: input_length(s)] for s in batch)
    return sum(map(len, inputs)) - sum(_common(one, other) for one, other in pairwise(inputs))


def to_json(prefill: Sequence[Prefill], updates: Sequence[Updates]) -> dict[str, object]:
    return {
        "prefill": [asdict(row) for row in prefill],
        "updates": [{**asdict(one), "spread": asdict(Spread.of(one.seconds))} for one in updates],
    }
