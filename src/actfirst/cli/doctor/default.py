"""What the default needs: the shipped models, the embedded engine, and the pocket world."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.environments.findings import Check, Finding, State
from actfirst.models.folder import resolve_model
from actfirst.models.plain import open_plain, plain_logprobs

if TYPE_CHECKING:
    from actfirst.policy.agent import Policy
    from actfirst.records import FastAction

RECIPE = "pocket"
_PROBE = "You are in the middle of a room. Looking quickly around you, you see a cabinet 1 and a drawer 1."
_TOKENS = 12
_TOLERANCE = 1e-3
_STEPS = 200
_REINSTALL = "pip install --force-reinstall actfirst, or clone the repository again"


def shipped_models() -> Finding:
    """Both models are where the recipe says, and share a tokenizer."""
    from actfirst.training.proofs import check_limits, check_tokenizers

    config = resolve(RECIPE)
    student, teacher = _folders(config)
    check_tokenizers(student, teacher)
    check_limits(config, student, teacher)
    sizes = ", ".join(
        f"{name} {_megabytes(path):.1f} MB" for name, path in (("student", student), ("teacher", teacher))
    )
    return Finding("models", State.OK, f"{sizes}, one tokenizer")


def engine() -> Finding:
    """The embedded engine generates, and its log-probs are those of a plain forward pass."""
    config = resolve(RECIPE)
    student, _ = _folders(config)
    prompt, tokens, logprobs, seconds = asyncio.run(_generate(config, student))
    expected = plain_logprobs(open_plain(student), prompt, tokens)
    worst = max(abs(a - b) for a, b in zip(logprobs, expected, strict=True))
    detail = (
        f"{len(tokens)} tokens in {seconds:.2f} s, log-probs differ from a forward pass by {worst:.1g} at most"
    )
    if worst > _TOLERANCE:
        remedy = "pip install --force-reinstall torch==2.13.0 transformers==5.19.0; then report it as a bug"
        return Finding("embedded engine", State.BROKEN, f"{detail} (allowed: {_TOLERANCE:g})", remedy)
    return Finding("embedded engine", State.OK, detail)


def fast_actions() -> Finding:
    """The student answers action-only prompts with actions, as training is to find."""
    from actfirst.training.proofs import doubt_about

    answers, policy = asyncio.run(_act_fast(resolve(RECIPE)))
    if doubt := doubt_about(answers, policy):
        return Finding("fast actions", State.BROKEN, doubt, _REINSTALL)
    read = sum(answer.action is not None for answer in answers)
    each = statistics.fmean(answer.token_count for answer in answers)
    return Finding("fast actions", State.OK, f"{read} of {len(answers)} can be read, {each:.1f} tokens each")


def pocket_world() -> Finding:
    """The world steps, and the reference of its first task solves it."""
    from actfirst.references.build.replay import replay
    from actfirst.rollout.stage import open_references, open_stage

    config = resolve(RECIPE)
    stage = open_stage(config.environment)
    task = stage.world.tasks("train")[0]
    environment, draw = stage.world.open(), random.Random(0)
    _, observation = environment.reset(task)
    started = time.perf_counter()
    for _ in range(_STEPS):
        if observation.done:
            _, observation = environment.reset(task)
        observation = environment.step(draw.choice(observation.admissible))
    each = (time.perf_counter() - started) / _STEPS
    reference = open_references(stage, config.references).get(task)
    actions = [step.action for step in reference.steps] if reference else []
    if not replay(environment, task, actions, "doctor").score:
        fault = f"the reference of {task.id} does not solve it"
        return Finding("pocket world", State.BROKEN, fault, _REINSTALL)
    environment.close()
    detail = f"{each * 1e6:.0f} microseconds per step; a reference of {len(actions)} actions works"
    return Finding("pocket world", State.OK, detail)


async def _act_fast(config: Config) -> tuple[list[FastAction], Policy]:
    from actfirst.training.playing import open_player
    from actfirst.training.proofs import try_fast_actions

    student, _ = _folders(config)
    async with open_player(config, student, config.rollout.generation, references=True) as (stage, player):
        return await try_fast_actions(player, stage.world.tasks("train")), player.policy


async def _generate(config: Config, model: Path) -> tuple[list[int], tuple[int, ...], tuple[float, ...], float]:
    from actfirst.engines.base import Sampling
    from actfirst.engines.open import open_engine
    from actfirst.policy.tokens import open_encoder

    prompt = open_encoder(model).encode(_PROBE)
    opened = open_engine(config.engine, model)
    try:
        started = time.perf_counter()
        completion = await opened.generate(prompt, Sampling(_TOKENS, seed=0))
        seconds = time.perf_counter() - started
    finally:
        await opened.close()
    return prompt, completion.token_ids, completion.logprobs, seconds


def _folders(config: Config) -> tuple[Path, Path]:
    return (
        resolve_model(config.models.student, "models.student"),
        resolve_model(config.models.teacher, "models.teacher"),
    )


def _megabytes(folder: Path) -> float:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 1e6


CHECKS = (
    Check("models", shipped_models, f"{_REINSTALL}; `actfirst pocket build` makes them from nothing"),
    Check("embedded engine", engine, _REINSTALL),
    Check("fast actions", fast_actions, _REINSTALL),
    Check("pocket world", pocket_world, _REINSTALL),
)
