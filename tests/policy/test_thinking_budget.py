"""The budgeted decoder (paper, appendix "Thinking Budget"), on an engine whose every token is one character."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actfirst.engines.base import Priority, Sampling
from actfirst.policy.thinking_budget import ThinkingBudget, early_stop, think_then_act
from actfirst.records import Completion, EngineStats, Response, StopReason

EOS = "\0"
PROMPT = "question:"
CLOSING = early_stop()
AFTER_REASONING = CLOSING.replace("</think>\n", "")
ROOMY = ThinkingBudget(first_stage=40, total=1000)


def encode(text: str) -> list[int]:
    return [ord(character) for character in text]


def decode(token_ids: Sequence[int]) -> str:
    return "".join(map(chr, token_ids))


class ScriptedEngine:
    """Answers the n-th request with the n-th script, cut at max_tokens; logprob -n-1 marks the request."""

    def __init__(self, *scripts: str, versions: Sequence[int] = (7, 7)) -> None:
        self.scripts = scripts
        self.versions = versions
        self.prompts: list[str] = []
        self.samplings: list[Sampling] = []
        self.priorities: list[Priority] = []
        self.outputs: list[str] = []

    @property
    def version(self) -> int:
        return self.versions[0]

    async def generate(
        self, prompt_ids: Sequence[int], sampling: Sampling, priority: Priority = Priority.FULL
    ) -> Completion:
        number = len(self.prompts)
        self.prompts.append(decode(prompt_ids))
        self.samplings.append(sampling)
        self.priorities.append(priority)
        whole = self.scripts[number] + EOS
        output = whole[: sampling.max_tokens]
        self.outputs.append(output)
        reason = StopReason.EOS if output.endswith(EOS) else StopReason.LENGTH
        logprobs = (-1.0 - number,) * len(output)
        return Completion(tuple(encode(output)), logprobs, reason, self.versions[number])

    async def score(self, prompt_ids: Sequence[int], token_ids: Sequence[int]) -> tuple[float, ...]:
        raise AssertionError("the decoder never scores")

    async def load_weights(self, weights: Mapping[str, Any], version: int) -> None:
        raise AssertionError("the decoder never loads weights")

    def stats(self) -> EngineStats:
        raise AssertionError("the decoder needs no counters")

    async def close(self) -> None:
        raise AssertionError("the decoder does not own the engine")


async def run(engine: ScriptedEngine, budget: ThinkingBudget = ROOMY, prompt: str = PROMPT) -> Response:
    return await think_then_act(engine, decode, encode, encode(prompt), budget, seed=1)


async def test_a_response_that_ends_on_its_own_is_used_directly() -> None:
    engine = ScriptedEngine("<think>cup</think><action>look</action>")
    response = await run(engine)
    assert response.text == "<think>cup</think><action>look</action>" + EOS
    assert (response.action, response.truncated, response.stop_reason) == ("look", False, StopReason.EOS)
    assert response.requests == len(engine.prompts) == 1
    assert response.mask == (1,) * 40
    assert response.prompt_ids == tuple(encode(PROMPT))


@pytest.mark.parametrize(
    ("scripts", "reasoning"),
    [
        (("<think>cup</think><action>look</action>",), len("<think>cup</think>")),
        (("<action>look</action>",), 0),
        (
            ("<think>cup",),
            len("<think>cup") + 1,
        ),  # it ended without an end of reasoning: all of it, its EOS too
        # 40 generated tokens, then an inserted end: what was inserted was not generated
        (("<think>" + "long thought " * 9, "look</action>"), 40),
    ],
)
async def test_reasoning_tokens_are_generated_ones_up_to_the_end_of_reasoning(
    scripts: tuple[str, ...], reasoning: int
) -> None:
    assert (await run(ScriptedEngine(*scripts))).reasoning_tokens == reasoning


async def test_open_reasoning_is_closed_by_the_whole_early_stop_text() -> None:
    engine = ScriptedEngine("<think>" + "long thought " * 9, "look</action>")
    response = await run(engine)
    first = ("<think>" + "long thought " * 9)[:40]
    assert engine.prompts[1] == PROMPT + first + CLOSING
    assert response.text == first + CLOSING + "look</action>" + EOS
    assert response.action == "look"
    assert response.mask == (1,) * 40 + (0,) * len(CLOSING) + (1,) * 14
    assert response.logprobs == (-1.0,) * 40 + (0.0,) * len(CLOSING) + (-2.0,) * 14
    assert response.requests == 2


async def test_reasoning_without_tags_is_closed_too() -> None:
    engine = ScriptedEngine("just words " * 9, "look</action>")
    assert (await run(engine)).action == "look"
    assert engine.prompts[1].endswith(CLOSING)


async def test_an_action_mentioned_inside_open_reasoning_is_not_an_action() -> None:
    engine = ScriptedEngine("<think>maybe <action>sit</action> or " + "so " * 20, "look</action>")
    response = await run(engine)
    assert engine.prompts[1].endswith(CLOSING)
    assert response.action == "look"


async def test_after_finished_reasoning_the_inserted_text_has_no_end_of_thinking() -> None:
    engine = ScriptedEngine("<think>cup</think> Therefore I will now go and", "look</action>")
    response = await run(engine)
    assert engine.prompts[1] == PROMPT + "<think>cup</think> Therefore I will now go and"[:40] + AFTER_REASONING
    assert AFTER_REASONING.endswith("directly now.\n\n<action>")
    assert response.text.count("</think>") == 1
    assert response.action == "look"


@pytest.mark.parametrize(
    "start", ["<think>cup</think><action>go to the tab", "<action>go to the table with th"]
)
async def test_a_started_action_is_continued_with_nothing_inserted(start: str) -> None:
    engine = ScriptedEngine(start + "le", "le 1</action>")
    response = await run(engine, ThinkingBudget(len(start), 1000))
    assert engine.prompts[1] == PROMPT + start
    assert response.text == start + "le 1</action>" + EOS
    assert response.mask == (1,) * len(response.token_ids)
    assert response.action == response.text.split("<action>")[1].split("</action>")[0]


async def test_a_finished_action_at_the_limit_needs_no_second_request_and_is_not_truncated() -> None:
    script = "<think>cup</think><action>look</action>"
    engine = ScriptedEngine(script + " and chatter")
    response = await run(engine, ThinkingBudget(len(script), 1000))
    assert (response.action, response.truncated, response.stop_reason) == ("look", False, StopReason.LENGTH)
    assert response.requests == 1


async def test_a_second_request_may_end_at_its_limit_after_the_action_without_being_truncated() -> None:
    engine = ScriptedEngine("<think>" + "x" * 99, "look</action> chatter chatter")
    response = await run(engine, ThinkingBudget(40, 1000, continuation=16))
    assert (response.action, response.truncated, response.stop_reason) == ("look", False, StopReason.LENGTH)


async def test_a_response_cut_inside_its_action_is_truncated_and_has_none() -> None:
    engine = ScriptedEngine("<think>" + "x" * 99, "go to a very far away table</action>")
    response = await run(engine, ThinkingBudget(40, 1000, continuation=16))
    assert (response.action, response.truncated, response.requests) == (None, True, 2)


async def test_a_response_cut_inside_its_reasoning_is_truncated_whatever_it_mentions() -> None:
    engine = ScriptedEngine("<think>so <action>sit</action> or not")
    response = await run(engine, ThinkingBudget(30, 30))
    assert (response.action, response.truncated, response.requests) == (None, True, 1)


async def test_a_response_that_ends_without_an_action_is_not_truncated() -> None:
    response = await run(ScriptedEngine("<think>no idea</think>"))
    assert (response.action, response.truncated) == (None, False)


async def test_an_inserted_text_that_leaves_no_room_is_not_inserted() -> None:
    script = "<think>" + "x" * 99
    for total, requests in ((40 + len(CLOSING), 1), (40 + len(CLOSING) + 1, 2)):
        response = await run(ScriptedEngine(script, "look</action>"), ThinkingBudget(40, total))
        assert (response.requests, response.truncated, response.action) == (requests, True, None)
        assert len(response.token_ids) == (40 if requests == 1 else total)


async def test_the_second_request_is_limited_by_its_own_limit_and_by_what_remains() -> None:
    for total, expected in ((40 + len(CLOSING) + 9, 9), (1000, 12)):
        engine = ScriptedEngine("<think>" + "x" * 99, "look</action>")
        await run(engine, ThinkingBudget(40, total, continuation=12))
        assert [sampling.max_tokens for sampling in engine.samplings] == [40, expected]


async def test_a_prompt_that_opens_the_reasoning_counts_as_open() -> None:
    engine = ScriptedEngine("maybe <action>sit</action> or " + "so " * 20, "look</action>")
    response = await run(engine, prompt=PROMPT + "<think>\n")
    assert engine.prompts[1].endswith(CLOSING)
    assert response.action == "look"
    cut = await run(
        ScriptedEngine("maybe <action>sit</action> or"), ThinkingBudget(26, 26), PROMPT + "<think>\n"
    )
    assert (cut.action, cut.truncated) == (None, True)


async def test_both_requests_are_sampled_alike_and_stop_at_the_end_of_text_only() -> None:
    engine = ScriptedEngine("<think>" + "x" * 99, "look</action>")
    await think_then_act(
        engine, decode, encode, encode(PROMPT), ROOMY,
        temperature=0.4, top_p=0.9, top_k=5, seed=3, priority=Priority.FAST,
    )  # fmt: skip
    assert {(s.temperature, s.top_p, s.top_k, s.stop) for s in engine.samplings} == {(0.4, 0.9, 5, ())}
    assert engine.priorities == [Priority.FAST, Priority.FAST]


async def second_seed(seed: int | None) -> int | None:
    engine = ScriptedEngine("<think>" + "x" * 99, "look</action>")
    await think_then_act(engine, decode, encode, encode(PROMPT), ROOMY, seed=seed)
    assert engine.samplings[0].seed == seed
    return engine.samplings[1].seed


async def test_the_second_seed_is_another_one_that_follows_from_the_first() -> None:
    seeds = [await second_seed(seed) for seed in (0, 1, 2, 42)]
    assert seeds == [await second_seed(seed) for seed in (0, 1, 2, 42)]
    assert len({*seeds, 0, 1, 2, 42}) == 8
    assert all(seed is not None and 0 <= seed < 2**63 for seed in seeds)
    assert await second_seed(None) is None


@pytest.mark.parametrize("versions", [(3, 4), (3, 3), (4, 3)])
async def test_a_response_across_a_weight_swap_carries_the_older_version(versions: tuple[int, int]) -> None:
    engine = ScriptedEngine("<think>" + "x" * 99, "look</action>", versions=versions)
    assert (await run(engine)).version == 3


@pytest.mark.parametrize(
    ("first_stage", "total", "continuation"), [(0, 5, 1), (-1, 5, 1), (6, 5, 1), (5, 5, 0)]
)
def test_an_impossible_budget_is_refused(first_stage: int, total: int, continuation: int) -> None:
    with pytest.raises(ValueError, match="need "):
        ThinkingBudget(first_stage, total, continuation)


async def test_on_a_real_engine_the_generated_tokens_have_the_log_probs_of_the_spliced_text(
    tmp_path: Path,
) -> None:
    from transformers import AutoTokenizer

    from actfirst.config.engine_sections import EngineSection
    from actfirst.engines.open import open_engine
    from actfirst.policy.tokens import PromptEncoder
    from tests.support.tiny_models import make_tiny_checkpoint

    folder = make_tiny_checkpoint(tmp_path)
    encoder = PromptEncoder(AutoTokenizer.from_pretrained(folder))
    prompt = encoder.encode("You see a cup. Use <think> </think> and <action> </action> tags.")
    inserted = encoder.encode_markup(CLOSING)
    budget = ThinkingBudget(first_stage=6, total=6 + len(inserted) + 5)
    engine = open_engine(EngineSection(max_concurrency=2, threads=1, dtype="float32"), folder)
    try:
        response = await think_then_act(engine, encoder.decode, encoder.encode_markup, prompt, budget, seed=0)
        again = await think_then_act(engine, encoder.decode, encoder.encode_markup, prompt, budget, seed=0)
        scores = await engine.score(response.prompt_ids, response.token_ids)
    finally:
        await engine.close()
    assert response == again
    assert response.requests == 2
    assert list(response.token_ids[6 : 6 + len(inserted)]) == inserted
    for sampled, scored, kept in zip(response.logprobs, scores, response.mask, strict=True):
        assert sampled == (pytest.approx(scored, abs=1e-4) if kept else 0.0)


PARTS = ["<think>", "</think>", "<action>", "</action>", "go", "x" * 30, "\n", "<act", "</thi"]
scripts = st.lists(st.sampled_from(PARTS), max_size=10).map("".join)


@st.composite
def budgets(draw: st.DrawFn) -> ThinkingBudget:
    total = draw(st.integers(1, 400))
    return ThinkingBudget(draw(st.integers(1, total)), total, draw(st.integers(1, 150)))


@settings(max_examples=400, deadline=None)
@given(first=scripts, second=scripts, budget=budgets())
async def test_what_holds_for_any_output_and_any_budget(
    first: str, second: str, budget: ThinkingBudget
) -> None:
    engine = ScriptedEngine(first, second, versions=(7, 8))
    response = await run(engine, budget)
    outputs = engine.outputs

    assert response.requests == len(outputs) <= 2
    assert len(response.token_ids) <= budget.total
    assert len(response.token_ids) == len(response.logprobs) == len(response.mask)
    assert len(outputs[0]) <= budget.first_stage
    assert sum(response.mask) == sum(map(len, outputs))
    assert response.text == decode(response.token_ids)

    # Exactly the generated tokens are supervised, each with the log-prob of the request that sampled it.
    generated = [t for t, kept in zip(response.token_ids, response.mask, strict=True) if kept]
    inserted = [t for t, kept in zip(response.token_ids, response.mask, strict=True) if not kept]
    assert decode(generated) == "".join(outputs)
    assert decode(inserted) in ("", CLOSING, AFTER_REASONING)
    sampled = [-1.0 - number for number, output in enumerate(outputs) for _ in output]
    assert [p for p, kept in zip(response.logprobs, response.mask, strict=True) if kept] == sampled
    assert all(p == 0.0 for p, kept in zip(response.logprobs, response.mask, strict=True) if not kept)

    if response.requests == 2:
        assert engine.prompts[1] == PROMPT + outputs[0] + decode(inserted)
        assert response.text == outputs[0] + decode(inserted) + outputs[1]
        assert len(outputs[1]) <= budget.continuation
        assert EOS not in outputs[0]
    else:
        assert not inserted

    ended = outputs[-1].endswith(EOS)
    assert response.stop_reason is (StopReason.EOS if ended else StopReason.LENGTH)
    assert not (response.truncated and ended)
    assert not (response.truncated and response.action is not None)
    if not response.truncated and not ended:
        assert "</action>" in response.text
    assert response.version == 7
