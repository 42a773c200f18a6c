"""Fast actions with Qwen3's own tokenizer and chat template (paper, "Thinking Budget": "Fast actions follow a separate
action-only decoding path"), and control tokens in what an environment says."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from actfirst.config.load import resolve
from actfirst.methods.acting import TrainingPoint
from actfirst.policy.chat_template import Ending
from actfirst.policy.foreign_text import MARK
from actfirst.policy.history import fit
from actfirst.policy.render import render, render_inverse_dynamics
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Mode, TurnContext, Verdict
from actfirst.rollout.stage import open_references, open_stage
from actfirst.rollout.task_order import TaskOrder
from actfirst.training.parts import Found, open_collector
from tests.environments import published
from tests.policy.contexts import CONTEXTS, REFERENCE, contexts
from tests.real_model import downloads
from tests.real_model.conftest import fetched
from tests.support.kinds import TEMPLATE_SETS
from tests.support.scripted import Request, ScriptedEngine, ScriptedTeacher

pytestmark = pytest.mark.slow

IM_START, ASSISTANT, LINE, LINES, THINK, END_THINK = 151644, 77091, 198, 271, 151667, 151668
OPEN = (IM_START, ASSISTANT, LINE)
BLOCK = (THINK, LINES, END_THINK, LINES)
FIRST_ADDED = 151643
PLACES = [(name, mode) for name in CONTEXTS for mode in Mode]


@pytest.fixture(scope="module")
def hostile() -> st.SearchStrategy[str]:
    """Texts full of the tokenizer's added tokens, special or not, and of pieces of them."""
    tokenizer = AutoTokenizer.from_pretrained(fetched(downloads.qwen3_tokenizer))
    added = [token.content for token in tokenizer.added_tokens_decoder.values()]
    pieces = st.sampled_from(added) | st.sampled_from(["<", "think>", "\n", " ", "a cup"])
    return st.lists(pieces, max_size=6).map("".join)


def made(qwen3: PromptEncoder, name: str, mode: Mode, context: TurnContext, ending: Ending) -> tuple[int, ...]:
    reference = REFERENCE if mode is Mode.INVERSE_DYNAMICS else None
    return fit(qwen3, TEMPLATE_SETS[name], mode, context, 10**6, reference, ending).ids


class TestEndings:
    @pytest.mark.parametrize(("name", "mode"), PLACES)
    def test_a_closed_prompt_ends_in_the_templates_empty_block(
        self, qwen3: PromptEncoder, name: str, mode: Mode
    ) -> None:
        ids = made(qwen3, name, mode, CONTEXTS[name], Ending.CLOSED)
        assert ids[-7:] == OPEN + BLOCK
        assert made(qwen3, name, mode, CONTEXTS[name], Ending.OPEN) == ids[:-4]

    @pytest.mark.parametrize("name", ["alfworld", "scienceworld"])
    def test_full_and_fast_prompts_share_all_before_what_is_asked_for(
        self, qwen3: PromptEncoder, name: str
    ) -> None:
        full = made(qwen3, name, Mode.FULL, CONTEXTS[name], Ending.OPEN)
        fast = made(qwen3, name, Mode.NEXT_ACTION, CONTEXTS[name], Ending.CLOSED)
        shared = [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(full, fast, strict=False))]
        text = render(TEMPLATE_SETS[name], Mode.FULL, CONTEXTS[name], len(CONTEXTS[name].history))
        asked = text.index("You should ") + len("You should")
        assert qwen3.decode(shared) == f"<|im_start|>user\n{text[:asked]}"

    def test_a_prefilled_prompt_opens_the_action_in_the_models_own_tokens(self, qwen3: PromptEncoder) -> None:
        ids = tuple(qwen3.encode("?", Ending.PREFILLED))
        opening = tuple(qwen3.encode_markup("<action>"))
        assert ids[-len(opening) - 4 :] == BLOCK + opening


class TestControlTokens:
    """No text of an environment becomes a token that the tokenizer added to its vocabulary."""

    @settings(max_examples=150, deadline=None)
    @given(data=st.data(), place=st.sampled_from(PLACES), context=contexts())
    def test_values_give_plain_tokens_and_keep_their_text(
        self,
        qwen3: PromptEncoder,
        hostile: st.SearchStrategy[str],
        data: st.DataObject,
        place: tuple[str, Mode],
        context: TurnContext,
    ) -> None:
        name, mode = place
        seen = replace(
            context.observation,
            text=data.draw(hostile),
            admissible=(data.draw(hostile), f"click[{data.draw(hostile)}]"),
            objects=(data.draw(hostile),),
        )
        context = replace(context, instruction=data.draw(hostile), observation=seen)
        reference = data.draw(hostile) if mode is Mode.INVERSE_DYNAMICS else None
        prompt = fit(qwen3, TEMPLATE_SETS[name], mode, context, 10**6, reference)
        templates = TEMPLATE_SETS[name]
        template = (templates.with_history if prompt.retained else templates.without_history)[mode]
        own = sum(len(re.findall("</?think>", literal)) for literal in template.parts[::2])
        # of the message: its own think tags; around it: two <|im_start|>, one <|im_end|>
        assert sum(i >= FIRST_ADDED for i in prompt.ids) == own + 3
        retained = prompt.retained
        text = (
            render(templates, mode, context, retained)
            if reference is None
            else render_inverse_dynamics(templates, context, retained, reference)
        )
        shown = qwen3.decode(prompt.ids)
        assert shown == qwen3.decode(qwen3.encode(text.replace(MARK, "")))

    @settings(max_examples=150, deadline=None)
    @given(place=st.sampled_from(PLACES), context=contexts())
    def test_prompts_without_control_tokens_in_values_are_those_of_the_chat_template(
        self, qwen3: PromptEncoder, place: tuple[str, Mode], context: TurnContext
    ) -> None:
        def harmless(text: str) -> str:
            return text.replace("<", "(").replace(MARK, "")

        seen = context.observation
        context = TurnContext(
            harmless(context.instruction),
            tuple(
                replace(pair, observation=harmless(pair.observation), action=harmless(pair.action))
                for pair in context.history
            ),
            replace(
                seen,
                text=harmless(seen.text),
                admissible=tuple(map(harmless, seen.admissible)),
                templates=tuple(map(harmless, seen.templates)),
                objects=tuple(map(harmless, seen.objects)),
            ),
            context.turn,
        )
        name, mode = place
        reference = REFERENCE if mode is Mode.INVERSE_DYNAMICS else None
        for ending in (Ending.OPEN, Ending.CLOSED):
            prompt = fit(qwen3, TEMPLATE_SETS[name], mode, context, 10**6, reference, ending)
            block = "<think>\n\n</think>\n\n" if ending is Ending.CLOSED else ""
            whole = f"<|im_start|>user\n{prompt.text.strip()}<|im_end|>\n<|im_start|>assistant\n{block}"
            assert list(prompt.ids) == qwen3.encode_markup(whole)


@pytest.mark.skipif(not published.ARCHIVE.exists(), reason=published.ABSENT)
async def test_a_batch_of_the_papers_alfworld_recipe(qwen3: PromptEncoder, tmp_path: Path) -> None:
    """`paper/alfworld-0.6b` on real games, with a student that thinks whenever it may and else mostly follows the
    reference: every fast prompt ends in a closed think block, no full prompt does, and fast actions are short."""
    (tmp_path / "train").symlink_to(published.unpacked() / "valid_seen")
    config = resolve("paper/alfworld-0.6b", [f"environment.folder={tmp_path}"])
    stage = open_stage(config.environment, config.pool)
    references = open_references(stage, config.references)
    order = TaskOrder(tuple(stage.world.tasks("train")), config.rollout.tasks_per_batch, config.run.seed)
    tasks = order.batch(0)
    known = [reference.steps for task in tasks if (reference := references.get(task)) is not None]
    leads_to = {step.observation.text: step.action for steps in known for step in steps}

    def script(request: Request) -> str:
        listed = re.search(r"situation are: \['(.*)'\]\.\n", request.text)
        assert listed is not None
        action = listed[1].split("', '")[0]
        target = re.search(r"Reference next observation:\n(.*?)\n\nThe reference", request.text, re.DOTALL)
        astray = "You are now at step 3" in request.text and "task is to: put" in request.text
        if target and not astray:
            action = leads_to[target[1]]
        answer = f"<action>{action}</action>"
        if request.ids[-4:] == BLOCK:
            return answer
        return f"<think>\n{'Let me think. ' * 20}\n</think>\n\n{answer}<|im_end|>"

    engine, teacher = ScriptedEngine(qwen3, script), ScriptedTeacher()
    found = Found(config, Path(), None, qwen3, stage, references, order, ())
    collector = open_collector(
        found,
        stage.policy(engine, qwen3, config.rollout.generation),
        teacher,  # type: ignore[arg-type]
        lambda: 0.0,
    )
    batch = await collector.collect(0, tasks, TrainingPoint())

    assert len(batch.episodes) == 16
    assert all(episode.error is None for episode in batch.episodes)
    fast = [request for request in engine.requests if request.is_fast]
    full = [request for request in engine.requests if not request.is_fast]
    assert all(request.ids[-7:] == OPEN + BLOCK for request in fast)
    assert all(request.ids[-3:] == OPEN for request in full)
    assert len(full) == batch.stats.contexts
    turns = [turn for episode in batch.episodes for turn in episode.turns]
    actions = [request for turn in turns for request in turn.requests]
    assert {request.mode for request in actions} == {Mode.INVERSE_DYNAMICS, Mode.NEXT_ACTION}
    assert all(request.action is not None and request.token_count < 32 for request in actions)
    assert {Verdict.ALIGNED, Verdict.DIVERGED} <= {turn.verdict for turn in turns}
    assert all("Let me think." in qwen3.decode(sample.token_ids) for sample in batch.samples)
