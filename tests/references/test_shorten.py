"""Delta debugging of action lists (paper, appendix "Reference Trajectories": ScienceWorld)."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actfirst.references.build.shorten import Budget, Precedent, likely, shorten

LONG = tuple(str(number) for number in range(40))


def holds(needed: set[str]):  # type: ignore[no-untyped-def]
    return lambda actions: needed <= set(actions)


def test_exactly_the_needed_actions_remain_in_their_order() -> None:
    found = shorten(LONG, holds({"3", "17", "39"}), Budget())
    assert found.actions == ("3", "17", "39")
    assert found.minimal
    assert found.replays < 60


def test_an_action_that_only_serves_another_one_goes_with_it() -> None:
    """`open` is needed as long as `close` is there: single actions are tried until nothing moves any more."""

    def works(actions: tuple[str, ...]) -> bool:
        return "win" in actions and ("close" not in actions or "open" in actions)

    assert shorten(("open", "a", "win", "close"), works, Budget()).actions == ("win",)


def test_a_list_of_which_nothing_can_go_stays_as_it_is() -> None:
    found = shorten(("a", "b", "c"), lambda actions: False, Budget())
    assert found.actions == ("a", "b", "c")
    assert found.minimal


@pytest.mark.parametrize("replays", [0, 1, 5])
def test_no_more_replays_than_the_budget_allows(replays: int) -> None:
    asked: list[tuple[str, ...]] = []

    def works(actions: tuple[str, ...]) -> bool:
        asked.append(actions)
        return "39" in actions

    found = shorten(LONG, works, Budget(replays=replays))
    assert len(asked) == found.replays == replays
    assert "39" in found.actions
    assert not found.minimal


def test_time_is_a_budget_too() -> None:
    ticks = count()
    found = shorten(LONG, holds({"39"}), Budget(seconds=3.0), clock=lambda: float(next(ticks)))
    assert 0 < found.replays < 4
    assert not found.minimal


@settings(deadline=None)
@given(
    st.lists(st.sampled_from("abcdef"), min_size=1, max_size=24), st.sets(st.sampled_from("abcdef"), max_size=3)
)
def test_the_result_works_is_a_subsequence_and_is_minimal(actions: list[str], needed: set[str]) -> None:
    works = holds(needed & set(actions))
    found = shorten(actions, works, Budget(replays=10_000))
    rest = iter(actions)
    assert all(action in rest for action in found.actions)
    assert works(found.actions)
    assert len(found.actions) == max(1, len(needed & set(actions)))


def test_a_precedent_says_what_would_remain() -> None:
    """Lists are laid side by side by their verbs: `go` ... `use` stays as in the other task."""
    other = Precedent(("look 1", "go kitchen", "open door", "take pot", "use pot"), ("go kitchen", "use pot"))
    assert likely(("look 2", "look 3", "go hall", "open lid", "take cup", "use cup", "wait"), other) == (
        "go hall",
        "use cup",
    )


def test_a_precedent_that_fits_saves_nearly_all_questions_and_one_that_does_not_costs_one() -> None:
    actions = tuple(f"{'use' if n in (13, 29) else 'look'} {n}" for n in range(40))
    works = holds({"use 13", "use 29"})
    other = Precedent((*(f"look {n}" for n in range(9)), "use x", "look", "use y"), ("use x", "use y"))
    alone, helped = shorten(actions, works, Budget()), shorten(actions, works, Budget(), [other])
    assert helped.actions == alone.actions == ("use 13", "use 29")
    assert helped.replays <= 3 < alone.replays
    misled = shorten(actions, works, Budget(), [Precedent(("look 1", "use x"), ("look 1",))])
    assert misled.actions == alone.actions
    assert misled.replays <= alone.replays + 1
