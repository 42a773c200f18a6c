"""A person plays: numbers, typed commands, hints, and every way to leave."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator

import pytest
from rich.console import Console

from actfirst.errors import TaskError
from actfirst.records import Observation, Reference, ReferenceStep, Task
from actfirst.terminal.play import Guide, find_task, play_by_hand
from tests.support.toy_world import CorridorEnvironment, CorridorReferences, CorridorWorld

THREE_ROOMS = Task("corridor/train/3-001", "train", "rooms3")


def typing(*lines: str) -> Callable[[str], str]:
    """Somebody who types these lines; then the input ends."""
    waiting: Iterator[str] = iter(lines)

    def read(prompt: str) -> str:
        try:
            return next(waiting)
        except StopIteration:
            raise EOFError from None

    return read


def play(*lines: str, turn_limit: int = 8, reference: bool = True) -> tuple[Observation, str]:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    guide = CorridorReferences().get(THREE_ROOMS) if reference else None
    final = play_by_hand(console, typing(*lines), CorridorEnvironment(), THREE_ROOMS, turn_limit, guide)
    assert isinstance(console.file, io.StringIO)
    return final, console.file.getvalue()


def test_numbers_and_commands_both_act() -> None:
    final, shown = play("1", "go east", "1")
    assert final.success
    assert "solved in 3 turns" in shown


def test_actions_are_numbered_as_the_environment_lists_them() -> None:
    _, shown = play("1", "q")
    assert "1 go east" in shown
    assert "2 go west" in shown


def test_a_command_that_is_not_admissible_costs_a_turn() -> None:
    final, shown = play("fly", "1", "1", "1", turn_limit=3)
    assert not final.success
    assert "Nothing happens." in shown
    assert "not solved: 3 turns" in shown


@pytest.mark.parametrize("lines", [("q",), ("quit",), (), ("1",)])
def test_leaving_is_always_quiet(lines: tuple[str, ...]) -> None:
    final, shown = play(*lines)
    assert not final.done
    assert shown.rstrip().endswith("good-bye")


def test_an_interrupt_is_a_way_to_leave() -> None:
    def interrupted(prompt: str) -> str:
        raise KeyboardInterrupt

    console = Console(file=io.StringIO(), color_system=None)
    assert not play_by_hand(console, interrupted, CorridorEnvironment(), THREE_ROOMS, 8).done


def test_blank_lines_and_wrong_numbers_cost_nothing() -> None:
    final, shown = play("", "  ", "9", "0", "1", "1", "1", turn_limit=3)
    assert final.success
    assert shown.count("choose 1 to 1") == 2


def test_hints_come_from_the_reference_wherever_it_passes() -> None:
    # After going there and back the player stands where the reference began.
    _, shown = play("h", "1", "2", "hint", "1", "h", "q")
    assert shown.count("the reference would hop east") == 3


def test_without_reference_there_is_no_hint() -> None:
    _, shown = play("h", "q", reference=False)
    assert "there is no reference for this task" in shown


def test_where_states_cannot_be_told_apart_the_hint_follows_the_moves() -> None:
    blank = Observation("", ())
    guide = Guide(Reference("t", blank, (ReferenceStep("a", blank), ReferenceStep("b", blank)), "test", 1.0))
    assert guide.hint(blank) == "the reference would a"
    guide.follow("a")
    assert guide.hint(blank) == "the reference would b"
    guide.follow("c")
    assert guide.hint(blank) == "you are not on the reference's path"


class TestFindingATask:
    def test_by_id_or_by_a_part_that_no_other_has(self) -> None:
        world = CorridorWorld()
        assert find_task(world, ["seen"], "corridor/train/3-001", None) == THREE_ROOMS
        assert find_task(world, ["seen"], "train/3-001", None) == THREE_ROOMS

    def test_by_seed_among_the_given_splits(self) -> None:
        world = CorridorWorld()
        assert find_task(world, ["seen"], None, 7) == find_task(world, ["seen"], None, 7)
        assert {find_task(world, ["seen"], None, seed).split for seed in range(5)} == {"seen"}

    @pytest.mark.parametrize("wanted", ["nowhere", "corridor"])
    def test_an_unknown_or_ambiguous_id_shows_what_ids_look_like(self, wanted: str) -> None:
        with pytest.raises(TaskError, match=r"corridor/train/2-000"):
            find_task(CorridorWorld(), ["seen"], wanted, None)
