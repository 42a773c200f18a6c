"""Measures a pocket checkpoint: success by three ways of acting, and how often a first-try action is the right one.

Success is that of the paper's protocol (think-then-act), of acting without reasoning, and of acting with
references. First-try accuracy is asked on the contexts of the references: does the transition pass the alignment
check (paper, appendix "Transition Consistency Checks") when the action comes from inverse dynamics, or from
next-action prediction?
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

from actfirst.config.engine_sections import EngineSection
from actfirst.config.sections import Generation
from actfirst.engines.open import open_engine
from actfirst.environments.pocket.kind import KIND
from actfirst.environments.pocket.world import PocketWorld
from actfirst.environments.pool.inline import InlinePool
from actfirst.environments.rules import Carry, Transition
from actfirst.evaluate.protocol import choose_tasks, evaluate
from actfirst.methods.acting import Acting, Policy
from actfirst.methods.strategies import Strategy
from actfirst.policy.render import read_templates
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Episode, Pair, Reference, Task, TurnContext
from actfirst.references.build.replay import replay
from actfirst.rollout.play import Player
from actfirst.seeds import derive_seed

LIMITS = Generation(
    prompt_limit=640, first_stage=112, response_limit=144, continuation=16, fast_limit=16, temperature=0.4
)


@dataclass(frozen=True, slots=True)
class Scope:
    """How much is measured: tasks of each split, evaluation seeds, and references for first-try accuracy."""

    tasks_per_split: int = 120
    seeds: tuple[int, ...] = (42, 43, 44)
    references: int = 60


class Walkthroughs:
    """The references of pocket tasks of any split: each game's own solution."""

    def __init__(self, world: PocketWorld) -> None:
        self._world = world
        self._environment = world.open()

    def get(self, task: Task) -> Reference:
        return replay(self._environment, task, self._world.game(task).walkthrough, "walkthrough")


def measure_model(folder: Path, scope: Scope, threads: int) -> dict[str, object]:
    """The measurements of one checkpoint folder, ready to be written as JSON."""
    return asyncio.run(_measure(folder, scope, threads))


async def _measure(folder: Path, scope: Scope, threads: int) -> dict[str, object]:
    from transformers import AutoTokenizer

    world = PocketWorld()
    settings = EngineSection(max_concurrency=64, preempt=False, dtype="float32", threads=threads)
    engine = open_engine(settings, folder)
    try:
        encoder = PromptEncoder(AutoTokenizer.from_pretrained(str(folder)))
        policy = Policy(engine, encoder, read_templates(KIND.prompts), LIMITS)
        return {
            "success": {
                way.value: {
                    split: await _success(world, policy, way.acting, split, scope)
                    for split in ("seen", "unseen")
                }
                for way in Strategy
            },
            "first_try": await _first_try(world, policy, choose_tasks(world, ["unseen"], scope.references)),
        }
    finally:
        await engine.close()


async def _success(
    world: PocketWorld, policy: Policy, acting: Acting, split: str, scope: Scope
) -> dict[str, object]:
    player = Player(policy, InlinePool(world), KIND.rules, world.turn_limit, Walkthroughs(world))
    episodes: list[Episode] = []
    tasks = choose_tasks(world, [split], scope.tasks_per_split)
    result = await evaluate(
        player, tasks, scope.seeds, 64, lambda episode, seed: episodes.append(episode), acting
    )
    rate = result.overall.success_rate
    responses = [len(t.response.token_ids) for e in episodes for t in e.turns if t.response is not None]
    actions = [request.token_count for e in episodes for t in e.turns for request in t.requests]
    return {
        "tasks": len(tasks),
        "success_rate": round(rate.mean, 2),
        "deviation": None if rate.deviation is None else round(rate.deviation, 2),
        "rounds": round(result.overall.rounds.mean, 2),
        "by_kind": {
            kind: round(metrics.success_rate.mean, 1) for kind, metrics in sorted(result.by_kind.items())
        },
        "response_tokens": round(fmean(responses), 1) if responses else None,
        "action_tokens": round(fmean(actions), 1) if actions else None,
        "errors": result.errors,
        "seconds": round(result.seconds, 1),
    }


async def _first_try(world: PocketWorld, policy: Policy, tasks: Sequence[Task]) -> dict[str, object]:
    """Per cent of reference contexts whose first-try action gives the reference's transition."""
    references = Walkthroughs(world)
    asked = [(task, references.get(task)) for task in tasks]
    results = await asyncio.gather(*(_along(world, policy, task, reference) for task, reference in asked))
    turns = [turn for result in results for turn in result]
    return {
        "contexts": len(turns),
        "inverse_dynamics": round(100 * fmean(guided for guided, _ in turns), 2),
        "next_action": round(100 * fmean(alone for _, alone in turns), 2),
    }


async def _along(
    world: PocketWorld, policy: Policy, task: Task, reference: Reference
) -> list[tuple[bool, bool]]:
    instruction = world.game(task).task
    observation, history = reference.initial, tuple[Pair, ...]()
    found: list[tuple[bool, bool]] = []
    for turn, step in enumerate(reference.steps, start=1):
        context = TurnContext(instruction, history, observation, turn)
        seed = derive_seed("first try", task.id, turn)
        guided = await policy.act_fast(context, seed, step.observation.text)
        alone = await policy.act_fast(context, seed)
        aligned = partial(_aligned, world, task, reference, turn)
        found.append((aligned(guided.action), aligned(alone.action)))
        history = (*history, Pair(observation.text, step.action))
        observation = step.observation
    return found


def _aligned(world: PocketWorld, task: Task, reference: Reference, turn: int, action: str | None) -> bool:
    """Whether `action`, taken where the reference stands before `turn`, gives the reference's transition."""
    environment = world.open()
    _, before = environment.reset(task)
    for earlier in reference.steps[: turn - 1]:
        before = environment.step(earlier.action)
    step = reference.steps[turn - 1]
    following = reference.steps[turn].action if turn < len(reference.steps) else None
    transition = Transition(before, action or "", environment.step(action or ""), step, following)
    return KIND.rules.check(transition, Carry()).aligned


def success_records(models: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """A table of measurements: one row for each model and way of acting."""
    for model, measured in models.items():
        for way, splits in measured["success"].items():
            unseen = splits["unseen"]
            tokens = unseen["response_tokens"] or unseen["action_tokens"]
            yield {
                "model": model,
                "acting": way,
                "seen SR %": _with_deviation(splits["seen"]),
                "unseen SR %": _with_deviation(unseen),
                "rounds": f"{unseen['rounds']:.1f}",
                "tokens per turn": f"{tokens:.1f}",
            }


def first_try_records(models: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """How often the first action tried on a reference's context gives the reference's transition."""
    for model, measured in models.items():
        tried = measured["first_try"]
        yield {
            "model": model,
            "contexts": str(tried["contexts"]),
            "inverse dynamics %": str(tried["inverse_dynamics"]),
            "next action %": str(tried["next_action"]),
        }


def _with_deviation(success: Mapping[str, Any]) -> str:
    deviation = success["deviation"]
    return f"{success['success_rate']:.1f}" + ("" if deviation is None else f" ± {deviation:.1f}")
