"""Growing prompts (`environment.prompts = "growing"`): each turn's extends the last, and tells what the paper's tells.

Prefixes are compared as token ids, which is what an engine's cache compares.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actfirst.environments.registry import built_in_kinds
from actfirst.errors import ConfigError
from actfirst.models.folder import resolve_model
from actfirst.policy.chat_template import Ending
from actfirst.policy.history import Prompt, fit
from actfirst.policy.render import pair_text, read_templates, render, render_inverse_dynamics
from actfirst.policy.tokens import PromptEncoder, open_encoder
from actfirst.records import Mode, Observation, Pair, TurnContext
from tests.policy.contexts import ALFWORLD, FRAGMENTS, REFERENCE, contexts, pairs, texts
from tests.policy.tokenizers import BYTE_LEVEL, marked, naive_ids, tokenizer
from tests.support.kinds import GROWING_SETS, TEMPLATE_SETS

NAMES = sorted(GROWING_SETS)
FAMILIES = (*BYTE_LEVEL, "pocket")
fragments = st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join)


@cache
def encoder(family: str) -> PromptEncoder:
    if family == "pocket":
        return open_encoder(Path(resolve_model("pocket:student", "models.student")))
    return PromptEncoder(tokenizer(family))


def prompt(
    made: PromptEncoder,
    name: str,
    mode: Mode,
    context: TurnContext,
    limit: int = 10**9,
    ending: Ending = Ending.OPEN,
) -> Prompt:
    reference = REFERENCE if mode is Mode.INVERSE_DYNAMICS else None
    return fit(made, GROWING_SETS[name], mode, context, limit, reference, ending)


def shared(*prompts: Sequence[int]) -> int:
    """How many ids all of the prompts begin with."""
    return next(
        (n for n, ids in enumerate(zip(*prompts, strict=False)) if len(set(ids)) > 1), min(map(len, prompts))
    )


def signed(turn: int) -> str:
    """A word that ends the observation of a turn and occurs nowhere else."""
    return " seen" + "".join("abcdefghij"[int(digit)] for digit in str(turn))


def episode(seen: Sequence[Pair], actions: Sequence[str] = ("look",)) -> Iterator[TurnContext]:
    """The contexts of an episode whose turns are `seen`."""
    turns = [Pair(f"{pair.observation}{signed(n)}.", pair.action) for n, pair in enumerate(seen, start=1)]
    for number, now in enumerate(turns):
        observation = Observation(now.observation, tuple(actions), templates=("go",), objects=tuple(actions))
        yield TurnContext("find it", tuple(turns[:number]), observation, number + 1)


def test_an_alfworld_prompt_that_grows() -> None:
    assert render(GROWING_SETS["alfworld"], Mode.NEXT_ACTION, ALFWORLD, 2) == (
        "You are an expert agent operating in the ALFRED Embodied Environment."
        " Your task is to: put a clean cup on the table.\n"
        "Below are the observations and the corresponding actions you took: \n"
        "[Observation 1: 'You are in a kitchen.\n\nYou see a sink 1.', Action 1: 'go to sink 1']\n"
        "[Observation 2: 'You arrive at sink 1.', Action 2: 'take cup 1 from sink 1']\n"
        "[Observation 3: 'You pick up the cup 1.'\n"
        "You are now at step 3.\n"
        "Your admissible actions of the current situation are: ['clean cup 1 with sink 1', 'look'].\n\n"
        "Now it's your turn to take an action.\n"
        "You should choose an admissible action for current step and present it within <action> </action> tags."
    )


@settings(max_examples=60, deadline=None)
@given(
    family=st.sampled_from(FAMILIES),
    name=st.sampled_from(NAMES),
    seen=st.lists(st.builds(Pair, fragments, fragments), min_size=2, max_size=6),
    actions=st.lists(texts, max_size=3),
    modes=st.tuples(st.sampled_from(list(Mode)), st.sampled_from(list(Mode))),
)
def test_the_next_turn_begins_with_this_one_up_to_the_end_of_the_observation(
    family: str, name: str, seen: list[Pair], actions: list[str], modes: tuple[Mode, Mode]
) -> None:
    """Whatever the modes of the two turns, and whatever stands in observations and actions."""
    made = encoder(family)
    for now, then in pairwise(episode(seen, actions)):
        first, second = prompt(made, name, modes[0], now).ids, prompt(made, name, modes[1], then).ids
        assert made.decode(first[: shared(first, second)]).rstrip(".'").endswith(signed(now.turn))


@settings(max_examples=60, deadline=None)
@given(family=st.sampled_from(FAMILIES), name=st.sampled_from(NAMES), context=contexts())
def test_the_prompts_of_one_turn_differ_in_the_text_of_the_mode_alone(
    family: str, name: str, context: TurnContext
) -> None:
    made = encoder(family)
    prompts = {mode: prompt(made, name, mode, context).ids for mode in Mode}
    same = shared(*prompts.values())
    rest = {mode: made.decode(ids[same:]).lstrip("\n") for mode, ids in prompts.items()}
    assert rest[Mode.INVERSE_DYNAMICS].startswith(
        "Complete the missing current action in this reference transition:"
    )
    for mode in (Mode.FULL, Mode.NEXT_ACTION):
        assert rest[mode].startswith("Now it's your turn to take")


@settings(max_examples=60, deadline=None)
@given(
    family=st.sampled_from(BYTE_LEVEL),
    name=st.sampled_from(NAMES),
    mode=st.sampled_from(list(Mode)),
    ending=st.sampled_from(list(Ending)),
    context=contexts(),
)
def test_the_ids_are_those_of_the_rendered_text(
    family: str, name: str, mode: Mode, ending: Ending, context: TurnContext
) -> None:
    plain, retained = marked(context), len(context.history)
    if mode is Mode.INVERSE_DYNAMICS:
        text = render_inverse_dynamics(GROWING_SETS[name], plain, retained, REFERENCE)
    else:
        text = render(GROWING_SETS[name], mode, plain, retained)
    assert prompt(encoder(family), name, mode, context, ending=ending).ids == tuple(
        naive_ids(tokenizer(family), text, ending)
    )


@settings(max_examples=60)
@given(name=st.sampled_from(NAMES), context=contexts())
def test_a_growing_prompt_tells_what_the_papers_tells(name: str, context: TurnContext) -> None:
    """Task, all pairs, observation, step, and what can be done, worded and listed alike."""
    paper, growing = (
        render(sets[name], Mode.FULL, context, len(context.history)) for sets in (TEMPLATE_SETS, GROWING_SETS)
    )
    told = [pair_text(number, pair) for number, pair in enumerate(context.history, start=1)]
    told += [
        f"task is: {context.instruction}" if name == "scienceworld" else f"task is to: {context.instruction}"
    ]
    told += [f"You are now at step {context.turn}"] if context.history else []
    actions = max(paper.rfind("\nYour admissible actions"), paper.rfind("\nAvailable action commands"))
    told.append(paper[actions:])
    assert all(part in paper and part in growing for part in told)
    assert f"\n[Observation {context.turn}: '{context.observation.text}'\n" in growing


@pytest.mark.parametrize("name", NAMES)
def test_all_sentences_about_actions_and_modes_are_the_papers(name: str) -> None:
    for mode in Mode:
        growing, paper = GROWING_SETS[name].with_history[mode].text, TEMPLATE_SETS[name].with_history[mode].text
        own = [line for line in growing.split("\n") if line and line not in paper.split("\n")]
        assert own == [
            "Below are the observations and the corresponding actions you took: {action_history}",
            "[Observation {current_step}: '{current_observation}'",
            "You are now at step {current_step}.",
        ]


def test_a_history_that_is_too_long_is_cut_in_blocks_so_that_prefixes_survive() -> None:
    made = encoder("qwen")
    turns = list(episode([Pair("You see a cup and a table." * (1 + n % 3), "look") for n in range(60)]))
    limit = len(prompt(made, "alfworld", Mode.FULL, turns[25]).ids)
    prompts = [prompt(made, "alfworld", Mode.FULL, turn, limit) for turn in turns]
    cuts = [len(turn.history) - kept.retained for turn, kept in zip(turns, prompts, strict=True)]
    assert max(len(made.ids) for made in prompts) <= limit
    assert cuts == sorted(cuts)
    assert {cut % 8 for cut in cuts} == {0}
    assert len(set(cuts)) <= 1 + 60 // 8
    for (now, first), (_, second) in pairwise(zip(turns, prompts, strict=True)):
        if len(now.history) - first.retained == len(now.history) + 1 - second.retained:
            same = made.decode(first.ids[: shared(first.ids, second.ids)])
            assert same.rstrip(".'").endswith(signed(now.turn))
    assert f"\n[Observation {cuts[-1] + 1}: '" in prompts[-1].text
    assert f"\n[Observation {cuts[-1]}: '" not in prompts[-1].text


@settings(max_examples=60, deadline=None)
@given(seen=st.lists(pairs, min_size=1, max_size=30), share=st.floats(0.4, 1.0))
def test_a_cut_leaves_at_least_half_of_what_fits(seen: list[Pair], share: float) -> None:
    made, context = encoder("tiny"), list(episode(seen))[-1]
    limit = int(share * len(prompt(made, "alfworld", Mode.FULL, context).ids))
    single = replace(GROWING_SETS["alfworld"], cut=1)
    if len(prompt(made, "alfworld", Mode.FULL, replace(context, history=())).ids) <= limit:
        most = fit(made, single, Mode.FULL, context, limit).retained
        assert most / 2 <= prompt(made, "alfworld", Mode.FULL, context, limit).retained <= most


def test_an_environment_without_growing_prompts_says_so(tmp_path: Path) -> None:
    forms = TEMPLATE_SETS["alfworld"].forms
    shutil.copytree(str(forms.folder), tmp_path, dirs_exist_ok=True)
    shutil.rmtree(tmp_path / "growing")
    bare = replace(forms, folder=tmp_path)
    assert read_templates(bare).cut == 1
    with pytest.raises(ConfigError, match=r'no such prompts .*set environment\.prompts = "paper"'):
        read_templates(bare, "growing")


def test_every_environment_of_the_package_has_them() -> None:
    for kind in built_in_kinds().values():
        assert set(read_templates(kind.prompts, "growing").with_history) == set(Mode)
