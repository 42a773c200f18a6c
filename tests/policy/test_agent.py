"""Fast actions follow a separate action-only decoding path (paper, "Thinking Budget")."""

from __future__ import annotations

import pytest

from actfirst.config.sections import Generation
from actfirst.policy.agent import Policy
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import FastAction
from tests.policy.contexts import ALFWORLD, REFERENCE
from tests.policy.tokenizers import tokenizer
from tests.support.kinds import TEMPLATE_SETS
from tests.support.scripted import Request, ScriptedEngine

BLOCK = "<think>\n\n</think>\n\n"
ACTION = "<action>look</action>"


def thinks_whenever_it_may(request: Request) -> str:
    """A model that opens its reasoning unless the prompt has closed it, and then takes its time."""
    if request.text.endswith("<action>"):
        return "look</action>"
    return ACTION if request.text.endswith(BLOCK) else f"<think>\n{'Let me see. ' * 100}</think>\n\n{ACTION}"


def agent(setting: str, **changes: object) -> tuple[Policy, ScriptedEngine]:
    encoder = PromptEncoder(tokenizer("qwen"))
    engine = ScriptedEngine(encoder, thinks_whenever_it_may)
    limits = Generation.model_validate({"fast_reasoning": setting, "fast_limit": 64, **changes})
    return Policy(engine, encoder, TEMPLATE_SETS["alfworld"], limits), engine


async def both_modes(policy: Policy) -> list[FastAction]:
    return [await policy.act_fast(ALFWORLD, 1), await policy.act_fast(ALFWORLD, 1, REFERENCE)]


@pytest.mark.parametrize(("setting", "tail"), [("closed", BLOCK), ("prefill", f"{BLOCK}<action>")])
async def test_fast_actions_are_read_and_short(setting: str, tail: str) -> None:
    policy, engine = agent(setting)
    for fast in await both_modes(policy):
        assert (fast.action, fast.text) == ("look", ACTION)
        assert fast.token_count < 32
    assert all(request.text.endswith(f"assistant\n{tail}") for request in engine.requests)
    assert [request.sampling.stop for request in engine.requests] == [("</action>",)] * 2


async def test_without_the_closed_block_such_a_model_reasons_until_the_limit() -> None:
    policy, _ = agent("none")
    for fast in await both_modes(policy):
        assert (fast.action, fast.token_count) == (None, 64)


@pytest.mark.parametrize("setting", ["closed", "prefill", "none"])
async def test_the_full_response_may_reason_whatever_fast_actions_do(setting: str) -> None:
    policy, engine = agent(setting, first_stage=4000, response_limit=4000)
    response = await policy.respond(ALFWORLD, 1)
    assert response.text.startswith("<think>")
    assert response.action == "look"
    assert engine.requests[0].text.endswith("<|im_start|>assistant\n")


@pytest.mark.parametrize(
    ("setting", "written"), [("closed", ACTION), ("none", ACTION), ("prefill", "look</action>")]
)
async def test_drafts_are_what_follows_the_prompt(setting: str, written: str) -> None:
    policy, engine = agent(setting)
    await policy.act_fast(ALFWORLD, 1, REFERENCE, "look")
    draft = engine.requests[0].sampling.draft
    assert draft is not None
    assert policy.encoder.decode(draft.likely) == written
    assert draft.likely in draft.possible


async def test_the_prompt_limit_counts_the_ending() -> None:
    """Appendix "History Management": tokens are counted after the chat template."""
    closed, engine = agent("closed")
    await closed.act_fast(ALFWORLD, 1)
    whole = len(engine.requests[0].ids)
    exact, engine = agent("closed", prompt_limit=whole)
    await exact.act_fast(ALFWORLD, 1)
    assert len(engine.requests[0].ids) == whole
    tight, engine = agent("closed", prompt_limit=whole - 1)
    await tight.act_fast(ALFWORLD, 1)
    assert "Observation 1:" not in engine.requests[0].text
