"""The work of reading what others wrote grows with its length. Each text here is so long that work which grows with the
square of it would take hours."""

from __future__ import annotations

import json
import random
import re
from pathlib import Path

import pytest

from actfirst.environments.webshop.kind import rewrite
from actfirst.environments.webshop.session import parse_action
from actfirst.records import Observation, Task
from actfirst.references.build.demonstrations import marked_action
from actfirst.references.sources import ImportedSource, match_task, unique_tails

LARGE = 400_000
ORIGINAL = re.compile(r"(.+)\[(.+)\]")
NOWHERE = Observation("", ())


def original(action: str) -> tuple[str, str] | None:
    """WebShop's own pattern."""
    found = ORIGINAL.match(action)
    return None if found is None else (found.group(1), found.group(2).lower())


def test_an_action_is_read_as_the_original_reads_it() -> None:
    draw = random.Random(7)
    texts = ["".join(draw.choices("aB[]\n ", k=draw.randrange(12))) for _ in range(20_000)]
    assert [parse_action(text) for text in texts] == [original(text) for text in texts]
    assert sum(original(text) is not None for text in texts) > 1_000


@pytest.mark.parametrize(
    "text", ["[" * LARGE, "a[" * LARGE, "a]" * LARGE, "click[" * LARGE, "a[b" * LARGE + "]"]
)
def test_the_work_of_an_action_grows_with_its_length(text: str) -> None:
    parse_action(text)
    list(rewrite(text, NOWHERE))
    list(rewrite("]" + text + " " * LARGE, NOWHERE))


@pytest.mark.parametrize(
    ("action", "forms"),
    [
        ("I will CLICK [ Buy Now ] and go", ["click[buy now]"]),
        ("search[Red\nCup] click[x]", ["search[Red\nCup]"]),
        ("click click[a]]", ["click[a]"]),
        ("click[a", []),
        ("]click[a", []),
    ],
)
def test_calls_inside_other_words_are_found(action: str, forms: list[str]) -> None:
    assert list(rewrite(action, NOWHERE)) == forms


@pytest.mark.parametrize(
    "answer",
    ["<action>" * LARGE, "\n" * LARGE, " \n" * LARGE + "x", "Action" + " " * LARGE, "\nAction 1 " * LARGE],
)
def test_the_work_of_a_marked_answer_grows_with_its_length(answer: str) -> None:
    assert marked_action(answer) == ""
    assert marked_action(answer + "\nAction: go east") == "go east"


def test_the_work_of_importing_grows_with_the_file(tmp_path: Path) -> None:
    tasks = [Task("train/house/1", "train", "house"), Task("train/house/2", "train", "house")]
    records: list[object] = [
        {"task_id": "a/" * LARGE + "house/2", "actions": ["look"]},
        {"instruction": " " * LARGE + "find the cup", "actions": ["go"]},
        {"instruction": "[SEP" * LARGE, "actions": ["go"]},
    ]
    path = tmp_path / "demonstrations.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    source = ImportedSource(path, tasks)
    assert [found.actions for found in source.candidates(tasks[1], "")] == [("look",)]
    assert [found.actions for found in source.candidates(tasks[0], "Find the cup.")] == [("go",)]


def test_a_name_is_matched_by_its_end_however_long_it_is() -> None:
    tails = unique_tails([Task("/".join(map(str, range(40))), "train", "house")])
    assert match_task("/home/me/data/38/39", tails) is not None
    assert match_task("x/" * LARGE + "38/39/game.tw-pddl", tails) is not None
    assert match_task("x/" * LARGE, tails) is None
