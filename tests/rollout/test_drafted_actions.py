"""Drafts of fast actions: what they hold, and that nothing else knows of them."""

from __future__ import annotations

import asyncio

from actfirst.methods.acting import TrainingPoint
from tests.support.collecting import GENERATION, bench, corridor_tasks, encoder, perfect, right_action
from tests.support.scripted import Request

DRAFTED = GENERATION.model_copy(update={"drafts": True})
PLAIN = GENERATION.model_copy(update={"drafts": False})


def requests(method: str, drafts: bool) -> list[Request]:
    made = bench(method, perfect, generation=DRAFTED if drafts else PLAIN)
    asyncio.run(made.collector.collect(0, corridor_tasks(4), TrainingPoint()))
    return made.engine.requests


def written(action: str) -> tuple[int, ...]:
    return encoder().encode_output(f"<action>{action}</action>")


def test_inverse_dynamics_drafts_the_reference_action_and_knows_the_admissible_ones() -> None:
    fast = [r for r in requests("actfirst", True) if r.is_inverse_dynamics]
    assert fast
    for request in fast:
        draft = request.sampling.draft
        assert draft is not None
        # The corridor's references say `hop east`, which no prompt lists.
        expected = right_action(request).replace("go east", "hop east")
        assert draft.likely == written(expected)
        assert "hop east" not in request.text
        assert written(right_action(request)) in draft.possible
        assert list(draft.possible) == sorted(draft.possible)


def test_next_action_prediction_drafts_from_the_admissible_actions_alone() -> None:
    fast = [r for r in requests("actfirst-no-id", True) if r.is_fast]
    assert fast
    for request in fast:
        draft = request.sampling.draft
        assert draft is not None
        assert draft.likely == ()
        assert written(right_action(request)) in draft.possible
        # Whatever is chosen, the field has to be opened.
        opening = tuple(encoder().encode_markup("<action>"))
        assert draft.after(())[: len(opening) - 1] == opening[:-1]


def test_full_responses_have_no_draft_and_drafts_can_be_switched_off() -> None:
    assert all(r.sampling.draft is None for r in requests("actfirst", True) if not r.is_fast)
    assert all(r.sampling.draft is None for r in requests("actfirst", False))


def test_prompts_seeds_and_limits_are_the_same_with_and_without_drafts() -> None:
    def asked(drafts: bool) -> list[tuple[object, ...]]:
        return sorted((r.ids, r.sampling.seed, r.sampling.max_tokens) for r in requests("actfirst", drafts))

    assert asked(True) == asked(False)
