"""Rows: what a list knows of an episode or a response without opening it; and how large a run folder may be."""

from __future__ import annotations

import json
import random
import tracemalloc
from pathlib import Path

import pytest

from actfirst.runs.line_index import BUDGET
from actfirst.view.catalogue import ROWS, Catalogue
from actfirst.view.rows import EPISODE_COLUMNS, RESPONSE_COLUMNS, episode_row, response_row
from tests.view.made_runs import episode, make_run


def turn(number: int, verdict: str = "unchecked", **more: object) -> dict[str, object]:
    line = {"number": number, "observation": f"o{number}", "action": "look", "valid": True, "verdict": verdict}
    return {**line, "state": "", "seconds": 1.0, **more}


def row(*turns: dict[str, object], **more: object) -> dict[str, object]:
    line = {"id": "e", "task": {"id": "t"}, "turns": list(turns), "final_observation": "end", **more}
    return dict(zip(EPISODE_COLUMNS, episode_row(line), strict=True))


def test_a_divergence_has_its_turn_and_its_reason() -> None:
    aligned = turn(1, "aligned")
    assert row(aligned)["diverged"] == 0
    other = row(aligned, turn(2, "diverged", reference_next="elsewhere"), turn(3))
    assert (other["diverged"], other["reason"]) == (2, "other observation")
    actions = row(aligned, turn(2, "diverged", reference_next=" o3\n"), turn(3))
    assert actions["reason"] == "other actions or end"
    for found, reason in ((["go"], "other actions"), (["look", "wait"], "other end")):
        known = turn(2, "diverged", reference_next="o3", reference_admissible=["wait", "look"])
        assert row(aligned, known, turn(3, admissible=found))["reason"] == reason
        last = {**known, "reference_next": "end"}
        assert row(aligned, last, final_admissible=found)["reason"] == reason
    at_the_end = row(turn(1, "diverged", reference_next="end"))
    assert at_the_end["reason"] == "other actions or end"
    assert row(turn(1, "invalid_proposal"))["reason"] == "proposal not admissible"
    assert row(turn(1, "diverged"))["reason"] == "reason not stored"


def test_repetitions_are_actions_submitted_again_in_the_same_state() -> None:
    found = row(turn(1, state="a"), turn(2, state="b"), turn(3, state="a"), turn(4, state="a", action="wait"))
    assert found["repeated"] == [3]


def test_invalid_actions_are_counted_by_turn() -> None:
    assert row(turn(1), turn(2, valid=False))["invalid"] == [2]


def test_reverse_kl_is_over_generated_tokens_only() -> None:
    line = {"episode": "e", "turn": 1, "token_texts": ["a", "b", "c"], "mask": [1, 0, 1]}
    streams = {"student": [-1.0, 0.0, -2.0], "teacher": [-2.0, -9.0, -2.5]}
    found = dict(zip(RESPONSE_COLUMNS, response_row({**line, **streams}), strict=True))
    assert (found["kl"], found["worst"], found["tokens"]) == (0.75, 1.0, 3)


def test_a_megabyte_of_text_does_not_enter_a_row() -> None:
    found = row(turn(1, observation="x" * 1_000_000), id="i" * 1_000_000, error="e" * 1_000_000)
    assert len(json.dumps(found)) < 2000


@pytest.mark.parametrize("count", [1_000, pytest.param(100_000, marks=pytest.mark.slow)])
def test_many_episodes_are_listed_in_small_steps(tmp_path: Path, count: int) -> None:
    """Every answer reads a bounded part of the file, each byte is read once, and memory holds rows, not lines."""
    assert BUDGET <= 1 << 17  # what is read before an answer, whoever waits for it
    folder = make_run(tmp_path / "run", updates=2)
    line = json.dumps({**episode(random.Random(0), 0, 0, whole=False), "padding": "x" * 4000}) + "\n"
    with (folder / "episodes.jsonl").open("w") as file:
        file.writelines(line for _ in range(count))
    size = (folder / "episodes.jsonl").stat().st_size
    catalogue = Catalogue([folder])
    index = catalogue._index(0, "episodes")
    tracemalloc.start()
    received, read = 0, 0
    while True:
        answer = json.loads(catalogue.rows(0, "episodes", received, 1))
        assert len(answer["rows"]) <= ROWS
        assert index.bytes_read - read <= BUDGET + len(line)
        read = index.bytes_read
        received += len(answer["rows"])
        if not answer["behind"] and received == answer["total"]:
            break
    del answer
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert received == count
    assert index.bytes_read == size
    assert memory < 700 * count
    catalogue.line(0, "episodes", count - 1)
    assert index.bytes_read == size + len(line)
