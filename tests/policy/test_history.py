"""Which history a prompt keeps (paper, appendix "History Management")."""

from __future__ import annotations

import copy
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actfirst.errors import PromptTooLong
from actfirst.policy.chat_template import Ending
from actfirst.policy.foreign_text import MARK
from actfirst.policy.history import Prompt, fit
from actfirst.policy.render import pair_text, render, render_inverse_dynamics
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Mode, Observation, Pair, TurnContext
from tests.policy.contexts import ALFWORLD, REFERENCE, contexts
from tests.policy.tokenizers import BYTE_LEVEL, marked, naive_ids, tokenizer
from tests.support.kinds import TEMPLATE_SETS

TEMPLATES = TEMPLATE_SETS["alfworld"]
NAMES = sorted(TEMPLATE_SETS)


@cache
def encoder(family: str = "qwen") -> PromptEncoder:
    return PromptEncoder(tokenizer(family))


def naive_fit(
    family: str, name: str, mode: Mode, context: TurnContext, limit: int, ending: Ending = Ending.OPEN
) -> Prompt | None:
    """The paper's loop, word for word: remove the oldest pair and render again; None if nothing fits."""
    context = marked(context)
    for retained in range(len(context.history), -1, -1):
        if mode is Mode.INVERSE_DYNAMICS:
            text = render_inverse_dynamics(TEMPLATE_SETS[name], context, retained, REFERENCE)
        else:
            text = render(TEMPLATE_SETS[name], mode, context, retained)
        ids = naive_ids(tokenizer(family), text, ending)
        if len(ids) <= limit:
            return Prompt(tuple(ids), text.replace(MARK, ""), retained)
    return None


def reference_for(mode: Mode) -> str | None:
    return REFERENCE if mode is Mode.INVERSE_DYNAMICS else None


def long_episode(turns: int) -> TurnContext:
    history = tuple(
        Pair(f"You see cup {n}.\n" + "and more " * (n % 7), f"take cup {n}") for n in range(1, turns)
    )
    return TurnContext("find the cup", history, Observation("Nothing.", ("look",)), turns)


def needed(context: TurnContext, retained: int, mode: Mode = Mode.FULL) -> int:
    return len(naive_ids(tokenizer("qwen"), render(TEMPLATES, mode, context, retained)))


@settings(max_examples=80, deadline=None)
@given(
    data=st.data(),
    family=st.sampled_from(BYTE_LEVEL),
    name=st.sampled_from(NAMES),
    mode=st.sampled_from(list(Mode)),
    ending=st.sampled_from(list(Ending)),
    context=contexts(),
)
def test_fitting_equals_the_loop_of_the_paper(
    data: st.DataObject, family: str, name: str, mode: Mode, ending: Ending, context: TurnContext
) -> None:
    everything = naive_fit(family, name, mode, context, 10**9, ending)
    assert everything is not None
    limit = data.draw(st.integers(len(everything.ids) // 3, len(everything.ids) + 5))
    expected = naive_fit(family, name, mode, context, limit, ending)
    arguments = (encoder(family), TEMPLATE_SETS[name], mode, context, limit, reference_for(mode), ending)
    if expected is None:
        with pytest.raises(PromptTooLong):
            fit(*arguments)
    else:
        assert fit(*arguments) == expected


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(
    family=st.sampled_from(BYTE_LEVEL),
    name=st.sampled_from(NAMES),
    mode=st.sampled_from(list(Mode)),
    context=contexts(),
    share=st.floats(0.3, 1.05),
)
def test_thousands_of_histories_equal_the_loop_of_the_paper(
    family: str, name: str, mode: Mode, context: TurnContext, share: float
) -> None:
    everything = naive_fit(family, name, mode, context, 10**9)
    assert everything is not None
    limit = int(share * len(everything.ids))
    expected = naive_fit(family, name, mode, context, limit)
    if expected is not None:
        made = fit(encoder(family), TEMPLATE_SETS[name], mode, context, limit, reference_for(mode))
        assert made == expected


@settings(max_examples=60, deadline=None)
@given(
    family=st.sampled_from(BYTE_LEVEL),
    head=st.sampled_from(["took: ", "took:", "took:\n", "took: \n ", "", "  ", "1", "it's\t"]),
    context=contexts(),
    tail=st.sampled_from(["\nYou are now", "\n\nnow", "\n now", "", "\n", "now", "\n[now]  "]),
)
def test_known_pairs_between_any_texts_give_the_ids_of_the_whole(
    family: str, head: str, context: TurnContext, tail: str
) -> None:
    blocks = [pair_text(number, pair) for number, pair in enumerate(context.history, start=1)]
    expected = naive_ids(tokenizer(family), "".join((head, *blocks, tail)))
    assert encoder(family).encode_around(head, blocks, tail) == expected
    assert encoder(family).count_around(head, blocks, tail) == len(expected)


@pytest.mark.parametrize("family", ["tiny", "qwen", "llama3"])
def test_a_turn_tokenises_what_is_new_in_it_and_nothing_else(family: str) -> None:
    """Also not the first pair, which follows the counters of steps that change in every turn."""
    made, history, turns = PromptEncoder(tokenizer(family)), (), 40
    before, new = made.characters_tokenised, 0
    for turn in range(1, turns + 1):
        seen = f"You arrive at table {turn}. " + "It is a long way from here. " * 6
        context = TurnContext("clean the cup", history, Observation(seen, (f"go to place {turn}",)), turn)
        for mode in (Mode.NEXT_ACTION, Mode.FULL):
            fit(made, TEMPLATES, mode, context, 10**6)
        new += 2 * len(seen)  # as the current observation, then as a pair
        history = (*history, Pair(seen, f"go to table {turn}"))
    assert made.characters_tokenised - before < new + turns * 400  # counters, actions and what is around them


def test_the_whole_history_is_kept_when_it_fits_exactly() -> None:
    context = long_episode(12)
    assert fit(encoder(), TEMPLATES, Mode.FULL, context, needed(context, 11)).retained == 11
    assert fit(encoder(), TEMPLATES, Mode.FULL, context, needed(context, 11) - 1).retained == 10


def test_every_limit_keeps_as_much_as_the_loop_would() -> None:
    context = long_episode(12)
    sizes = [needed(context, retained) for retained in range(12)]
    for limit in range(sizes[0], sizes[-1] + 2, 3):
        kept = fit(encoder(), TEMPLATES, Mode.FULL, context, limit).retained
        assert kept == max(retained for retained, size in enumerate(sizes) if size <= limit)


def test_modes_keep_different_suffixes_because_their_templates_differ() -> None:
    context = long_episode(12)
    limit = needed(context, 5) - 1
    full = fit(encoder(), TEMPLATES, Mode.FULL, context, limit)
    fast = fit(encoder(), TEMPLATES, Mode.NEXT_ACTION, context, limit)
    inverse = fit(encoder(), TEMPLATES, Mode.INVERSE_DYNAMICS, context, limit, REFERENCE)
    assert inverse.retained < full.retained == 4 < fast.retained


def test_a_prompt_that_never_fits_says_why_and_what_to_do() -> None:
    limit = needed(ALFWORLD, 0) - 1
    with pytest.raises(
        PromptTooLong, match=rf"full prompt needs {limit + 1} tokens .* {limit}: raise the prompt limit"
    ):
        fit(encoder(), TEMPLATES, Mode.FULL, ALFWORLD, limit)


def test_a_first_turn_that_does_not_fit_is_the_same_error() -> None:
    first = TurnContext("q", (), Observation("word " * 500, ("look",)), 1)
    with pytest.raises(PromptTooLong, match="full prompt needs"):
        fit(encoder(), TEMPLATES, Mode.FULL, first, 300)


def test_the_observation_the_actions_and_the_reference_are_never_shortened() -> None:
    context = replace(long_episode(12), observation=Observation("now " * 30, ("act " * 30,)))
    reference = "then " * 30
    text = render_inverse_dynamics(TEMPLATES, context, 0, reference)
    limit = len(naive_ids(tokenizer("qwen"), text))
    prompt = fit(encoder(), TEMPLATES, Mode.INVERSE_DYNAMICS, context, limit, reference)
    assert prompt.retained == 0
    assert all(whole in prompt.text for whole in ("now " * 30, "act " * 30, reference))


def test_the_snapshot_is_left_as_it_was() -> None:
    context = long_episode(12)
    before = copy.deepcopy(context)
    fit(encoder(), TEMPLATES, Mode.FULL, context, needed(context, 3))
    assert context == before


@pytest.mark.parametrize("mode", [Mode.FULL, Mode.NEXT_ACTION])
def test_a_reference_is_refused_outside_inverse_dynamics(mode: Mode) -> None:
    with pytest.raises(ValueError, match="must not have a reference"):
        fit(encoder(), TEMPLATES, mode, ALFWORLD, 10_000, REFERENCE)


def test_inverse_dynamics_needs_a_reference() -> None:
    with pytest.raises(ValueError, match="must have a reference"):
        fit(encoder(), TEMPLATES, Mode.INVERSE_DYNAMICS, ALFWORLD, 10_000)


def test_an_empty_reference_observation_is_still_a_reference() -> None:
    prompt = fit(encoder(), TEMPLATES, Mode.INVERSE_DYNAMICS, ALFWORLD, 10_000, "")
    assert "Reference next observation:\n\n" in prompt.text


def test_overflow_late_in_a_long_episode_costs_a_few_renderings_not_one_per_pair(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    context = long_episode(200)
    made = PromptEncoder(tokenizer("qwen"))
    encoded: list[str] = []
    original = made.encode
    monkeypatch.setattr(made, "encode", lambda text, ending: encoded.append(text) or original(text, ending))
    prompt = fit(made, TEMPLATES, Mode.FULL, context, needed(context, 20))
    assert prompt.retained == 20
    assert len(encoded) <= 4
    tokenised = made.characters_tokenised
    fit(made, TEMPLATES, Mode.FULL, context, needed(context, 20))
    assert made.characters_tokenised == tokenised
