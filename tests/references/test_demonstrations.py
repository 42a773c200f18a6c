"""Demonstrations of other people: every file shape and record shape gives the same lists of actions."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from actfirst.environments.webshop.kind import KIND as WEBSHOP
from actfirst.errors import ReferenceStoreError
from actfirst.records import Task
from actfirst.references.build.demonstrations import marked_action, read_demonstrations
from actfirst.references.sources import ImportedSource

RECORD = {"game_file": "/home/x/json_2.1.1/train/pick-Mug/trial_1/game.tw-pddl", "actions": ["look", "go east"]}
CHAT = {
    "id": "pick-Mug/trial_1",
    "conversations": [
        {"from": "human", "value": "Interact with a household."},
        {"from": "gpt", "value": "OK"},
        {"from": "human", "value": "Your task is to: put a mug in desk."},
        {"from": "gpt", "value": "Thought: I look first.\nAction: look"},
        {"from": "human", "value": "You see nothing."},
        {"from": "gpt", "value": "Thought: East then.\nAction:\ngo east"},
    ],
}
TASKS = [
    Task(f"alfworld/train/{kind}-Mug/trial_{n}", "train", kind) for kind in ("pick", "heat") for n in (1, 2)
]
PICK = TASKS[0]


def write(path: Path, text: str, pack: Callable[[bytes], bytes] = bytes) -> Path:
    path.write_bytes(pack(text.encode()))
    return path


@pytest.mark.parametrize("pack", [bytes, lzma.compress, gzip.compress, bz2.compress])
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(RECORD),
        json.dumps(RECORD) + "\n" + json.dumps(RECORD) + "\n",
        json.dumps([RECORD]),
        json.dumps([RECORD], indent=1),
        json.dumps({"pick-Mug/trial_1": RECORD}),
        json.dumps({"pick-Mug/trial_1": ["look", "go east"]}, indent=1),
        json.dumps({"task_id": "trial_1", "steps": [{"action": "look"}, {"action": "go east", "reward": 1}]}),
        json.dumps(CHAT),
    ],
)
def test_every_file_shape_packed_or_not(text: str, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    found = list(read_demonstrations(write(tmp_path / "some.file", text, pack)))
    assert {demonstration.actions for demonstration in found} == {("look", "go east")}


@pytest.mark.parametrize(
    ("answer", "action"),
    [
        ("<think>I could <action>look</action></think><action> go east </action>", "go east"),
        ("Thought: it is there.\nAction: search[red shoes]", "search[red shoes]"),
        ("Action:\nclick[buy now]\n", "click[buy now]"),
        ("action 3: `look`", "look"),
        ("OK, I will follow the instructions.", ""),
    ],
)
def test_the_action_of_an_answer(answer: str, action: str) -> None:
    assert marked_action(answer) == action


def test_a_chat_without_marks_answers_with_bare_actions(tmp_path: Path) -> None:
    messages = [
        {"role": "system", "content": "Play."},
        {"role": "user", "content": "Begin."},
        {"role": "assistant", "content": "look"},
        {"role": "assistant", "content": "go east"},
    ]
    path = write(tmp_path / "chat.json", json.dumps([{"messages": messages}]))
    assert [found.actions for found in read_demonstrations(path)] == [("look", "go east")]


@pytest.mark.parametrize(
    ("name", "arguments", "action"),
    [
        ("act", '{"action": "go east"}', "go east"),
        ("run", {"command": " go east "}, "go east"),
        ("search", '{"query": "red shoes"}', "search[red shoes]"),
        ("look_around", "{}", "look around"),
        ("move", '{"what": "mug", "where": "desk"}', None),
        ("act", "{broken", None),
    ],
)
def test_openai_tool_calls_are_actions(
    name: str, arguments: object, action: str | None, tmp_path: Path
) -> None:
    call = {"id": "1", "type": "function", "function": {"name": name, "arguments": arguments}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Your task is to: put a mug in desk."}]},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "content": "You see nothing."},
        {"role": "assistant", "content": None, "function_call": {"name": "stop", "arguments": ""}},
        {"role": "assistant", "content": "I am done."},
    ]
    (found,) = read_demonstrations(write(tmp_path / "chat.json", json.dumps([{"messages": messages}])))
    assert found.actions == ((action, "stop") if action else ("stop",))
    assert found.texts[0] == "Your task is to: put a mug in desk."


@pytest.mark.parametrize("broken", [1, 2, 4])
def test_an_error_names_the_true_line(broken: int, tmp_path: Path) -> None:
    """Blank lines count; the first line may be the one that is damaged."""
    lines = [json.dumps(RECORD), json.dumps(RECORD), "", json.dumps(RECORD)]
    lines[broken - 1] = lines[broken - 1][:-5]
    with pytest.raises(ReferenceStoreError, match=rf"demos, line {broken} is neither"):
        list(read_demonstrations(write(tmp_path / "demos", "\n".join(lines))))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("milk, eggs", "neither JSON nor JSON lines"),
        ('{"score": 3}', "no demonstrations of a known shape"),
        ("[]", "no demonstrations of a known shape"),
    ],
)
def test_a_file_of_something_else_is_refused(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ReferenceStoreError, match=message):
        list(read_demonstrations(write(tmp_path / "notes", text)))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ReferenceStoreError, match=r"cannot read .*nowhere"):
        list(read_demonstrations(tmp_path / "nowhere"))


def imported(tmp_path: Path, *records: object) -> ImportedSource:
    text = "".join(json.dumps(record) + "\n" for record in records)
    return ImportedSource(write(tmp_path / "demos.jsonl", text), TASKS)


def offered(
    source: ImportedSource, task: Task, instruction: str = "put a mug in desk."
) -> list[tuple[str, ...]]:
    return [candidate.actions for candidate in source.candidates(task, instruction)]


def test_a_path_of_another_machine_is_matched_by_its_tail(tmp_path: Path) -> None:
    source = imported(
        tmp_path, RECORD, {"game_file": "C:\\games\\heat-Mug\\trial_2\\game.tw-pddl", "actions": ["b"]}
    )
    assert offered(source, PICK) == [("look", "go east")]
    assert offered(source, TASKS[3]) == [("b",)]
    assert offered(source, TASKS[1]) == []
    assert next(source.candidates(PICK, "")).source == "import:demos.jsonl"


def test_what_is_dropped_is_counted_and_named(tmp_path: Path) -> None:
    used = imported(
        tmp_path,
        RECORD,
        {"actions": [], "task_id": "pick-Mug/trial_1"},
        {"instruction": "Heat a mug", "actions": ["heat"]},
        {"score": 3},
        {"actions": ["look"]},
        {"game_file": "elsewhere/game.tw-pddl", "actions": ["look"]},
        {"actions": ["look"]},
    ).used
    assert (used.named, used.by_text) == (1, 1)
    assert used.dropped == {
        "no actions": ["line 2"],
        "no known shape": ["line 4"],
        "does not say its task": ["line 5", "line 7"],
        "no task of this world is named": ["line 6 (elsewhere/game.tw-pddl)"],
    }
    assert "2 dropped, does not say its task: line 5, line 7" in used.text()


def test_a_tail_that_two_tasks_share_names_neither(tmp_path: Path) -> None:
    source = imported(tmp_path, {"task_id": "trial_1", "actions": ["a"]})
    assert offered(source, PICK) == []


def test_a_record_without_a_name_is_matched_by_the_instruction(tmp_path: Path) -> None:
    chat = {"id": 17, "conversations": CHAT["conversations"]}
    source = imported(tmp_path, chat, {"id": "elsewhere", "instruction": "Heat a mug", "actions": ["heat"]})
    assert offered(source, PICK, "put a mug in desk.") == [("look", "go east")]
    assert offered(source, PICK, "heat a  MUG.") == [("heat",)]
    assert offered(source, PICK, "put a mug in bed.") == []


def test_shop_instructions_match_whatever_the_price_clause_says(tmp_path: Path) -> None:
    """Appendix "Reference Trajectories": WebShop candidates are matched to training-task instructions."""
    page = "WebShop [SEP] Instruction: [SEP] i need red shoes, and price lower than 30.00 dollars [SEP] Search"
    messages = [
        {"role": "user", "content": page},
        {"role": "assistant", "content": "Action: search[red shoes]"},
    ]
    file = write(tmp_path / "demos.jsonl", json.dumps({"messages": messages}))
    source = ImportedSource(file, TASKS, "", WEBSHOP.sources.instruction)
    assert offered(source, PICK, "i need red shoes, and price lower than 90.00 dollars") == [
        ("search[red shoes]",)
    ]
    assert offered(source, PICK, "i need blue shoes") == []


def test_the_key_of_a_file_is_that_of_its_content(tmp_path: Path) -> None:
    first = imported(tmp_path, RECORD).key
    assert imported(tmp_path, RECORD).key == first
    assert imported(tmp_path, RECORD, RECORD).key != first
