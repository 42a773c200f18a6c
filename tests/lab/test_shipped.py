"""The models that ship with the package: one tokenizer, small, loadable, and able to follow all three modes."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.engines.open import open_engine
from actfirst.evaluate.protocol import choose_tasks, evaluate
from actfirst.methods.acting import Guided, ThinkThenAct
from actfirst.models.folder import resolve_model
from actfirst.policy.tokens import open_encoder
from actfirst.records import Episode
from actfirst.rollout.stage import open_references, open_stage

CONFIG = resolve("pocket")


@pytest.mark.parametrize("name", ["pocket:student", "pocket:teacher"])
def test_a_model_is_small_and_its_prompts_are_cut_at_newlines(name: str) -> None:
    folder = resolve_model(name, "models")
    assert sum(file.stat().st_size for file in folder.iterdir()) < 4_000_000
    assert open_encoder(folder).piecewise


def test_student_and_teacher_have_one_tokenizer() -> None:
    student, teacher = (Path(resolve_model(name, "models")) for name in ("pocket:student", "pocket:teacher"))
    assert (student / "tokenizer.json").read_bytes() == (teacher / "tokenizer.json").read_bytes()


def test_the_student_follows_its_references_and_thinks_before_it_acts() -> None:
    """Guided by references most first actions align; full responses are well formed and long beside an action."""
    stage = open_stage(CONFIG.environment)
    folder = resolve_model("pocket:student", "models")
    engine, episodes = open_engine(CONFIG.engine, folder), list[Episode]()

    async def play() -> None:
        policy = stage.policy(engine, open_encoder(folder), CONFIG.evaluation.generation)
        tasks = choose_tasks(stage.world, ["seen"], 6)
        player = replace(stage.player(policy, 0, open_references(stage, CONFIG.references)), turn_limit=4)
        for acting in (ThinkThenAct(), Guided()):
            await evaluate(player, tasks, (42,), 8, lambda episode, seed: episodes.append(episode), acting)
        await engine.close()

    asyncio.run(play())
    thought = [turn for episode in episodes for turn in episode.turns if turn.response is not None]
    fast = [turn for episode in episodes for turn in episode.turns if turn.requests]
    assert sum(turn.response is not None and turn.response.action is not None for turn in thought) > 0.9 * len(
        thought
    )
    mean_full = sum(len(turn.response.token_ids) for turn in thought if turn.response) / len(thought)
    mean_fast = sum(turn.requests[0].token_count for turn in fast) / len(fast)
    assert mean_full > 6 * mean_fast
    assert sum(turn.verdict.value == "aligned" for turn in fast) > 0.7 * len(fast)
