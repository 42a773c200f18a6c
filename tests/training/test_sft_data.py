"""Demonstrations of every shape become examples with the prompts of training; what is left out is counted and named."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import pytest

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.environments.registry import kind_of, open_world
from actfirst.errors import ConfigError, DataError
from actfirst.models.folder import resolve_model
from actfirst.policy.history import fit
from actfirst.policy.render import read_templates
from actfirst.policy.tokens import PromptEncoder, open_encoder
from actfirst.records import Mode, Pair, TurnContext
from actfirst.references.build.build import Plan, build_store
from actfirst.runs.run_folder import RunFolder
from actfirst.training.sft_examples import Examples, read_examples

SMALL = ["environment.train_tasks=6", "sft.held_out=0.0"]
WORLD = open_world(resolve("pocket", SMALL).environment)
TASKS = WORLD.tasks("train")
SOURCES = kind_of(resolve("pocket").environment).sources


@pytest.fixture(scope="module")
def encoder() -> PromptEncoder:
    return open_encoder(resolve_model("pocket:student", "models.student"))


def solution(number: int = 0) -> list[str]:
    return list(next(iter(SOURCES.ways["walkthrough"](WORLD, TASKS[number]))))


def config(*overrides: str, **data: object) -> Config:
    entry = ", ".join(f"{key} = {json.dumps(value)}" for key, value in data.items())
    return resolve("pocket", [*SMALL, f"sft.data=[{{{entry}}}]", *overrides])


def write(path: Path, *records: object) -> Path:
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def texts(encoder: PromptEncoder, found: Examples) -> list[str]:
    return [encoder.decode(example.response_ids) for example in found.train]


def contexts(number: int, actions: list[str]) -> list[tuple[TurnContext, str, str]]:
    """Every context of a task, the action there, and what it led to: played here by hand."""
    environment, history, turns = WORLD.open(), list[Pair](), []
    instruction, seen = environment.reset(TASKS[number])
    for turn, action in enumerate(actions, start=1):
        after = environment.step(action)
        turns.append((TurnContext(instruction, tuple(history), seen, turn), action, after.text))
        history.append(Pair(seen.text, action))
        seen = after
    return turns


def test_action_lists_are_replayed_and_shown_as_next_actions_with_the_prompts_of_training(
    tmp_path: Path, encoder: PromptEncoder
) -> None:
    path = write(
        tmp_path / "a.jsonl", {"game_file": f"/home/x/{TASKS[0].id}/game.tw-pddl", "actions": solution()}
    )
    made = config("sft.full=0.0", "sft.next_action=1.0", kind="actions", path=str(path))
    found = read_examples(made, encoder)
    templates = read_templates(kind_of(made.environment).prompts)
    limit = made.rollout.generation.prompt_limit
    turns = contexts(0, solution())
    assert [tuple(example.prompt_ids) for example in found.train] == [
        fit(encoder, templates, Mode.NEXT_ACTION, context, limit).ids for context, _, _ in turns
    ]
    assert texts(encoder, found) == [f"<action>{action}</action><|im_end|>" for _, action, _ in turns]
    assert found.data[0].examples == {"next_action": len(turns)}


def test_inverse_dynamics_shows_what_the_action_led_to(tmp_path: Path, encoder: PromptEncoder) -> None:
    path = tmp_path / "a.jsonl.xz"
    path.write_bytes(
        lzma.compress((json.dumps({"task_id": TASKS[1].id, "actions": solution(1)}) + "\n").encode())
    )
    made = config("sft.full=0.0", "sft.inverse_dynamics=1.0", kind="actions", path=str(path))
    found = read_examples(made, encoder)
    templates, limit = read_templates(kind_of(made.environment).prompts), made.rollout.generation.prompt_limit
    assert [tuple(example.prompt_ids) for example in found.train] == [
        fit(encoder, templates, Mode.INVERSE_DYNAMICS, context, limit, after).ids
        for context, _, after in contexts(1, solution(1))
    ]


def test_the_demonstrator_reasons_and_every_mode_has_its_share(encoder: PromptEncoder) -> None:
    made = config("sft.full=0.5", "sft.next_action=0.25", "sft.inverse_dynamics=0.25", kind="demonstrator")
    found = read_examples(made, encoder)
    counts = found.data[0].examples
    assert set(counts) == {"full", "next_action", "inverse_dynamics"}
    assert counts["full"] > counts["next_action"]
    full = [text for text in texts(encoder, found) if text.startswith("<think>")]
    assert len(full) == counts["full"]
    assert all(text.endswith("</action><|im_end|>") and "\n</think>\n\n<action>" in text for text in full)
    assert read_examples(made, encoder) == found  # nothing is left to chance


def test_walks_after_the_first_stray_and_still_show_what_the_demonstrator_would_do(
    encoder: PromptEncoder,
) -> None:
    straight = read_examples(config("sft.full=1.0", kind="demonstrator"), encoder)
    both = read_examples(config(kind="demonstrator", walks=2, stray=0.5, success=False), encoder)
    one_by_one = {example.name: 0 for example in both.train}
    assert len(one_by_one) == 2 * len(TASKS)
    first = [example for example in both.train if ", walk 2" not in example.name]
    assert first == straight.train
    strayed = [example for example in both.train if ", walk 2" in example.name]
    assert len(strayed) > len(first), "a walk that strays takes longer"
    assert any("Nothing happens." in encoder.decode(example.prompt_ids) for example in strayed)
    for example in strayed:
        assert "So I look" not in encoder.decode(example.response_ids), "what was done by chance is not shown"


def test_at_unlearned_stages_a_novice_shows_what_to_do(encoder: PromptEncoder) -> None:
    lacking = {"unlearned": ["place", "treat", "light", "second"], "success": False}
    expert = read_examples(config(kind="demonstrator"), encoder)
    novice = read_examples(config(kind="demonstrator", **lacking), encoder)
    assert [example.prompt_ids for example in novice.train] == [example.prompt_ids for example in expert.train]
    changed = [
        (was, now)
        for was, now in zip(texts(encoder, expert), texts(encoder, novice), strict=True)
        if was != now
    ]
    assert changed
    assert all("I hold nothing" not in was or "So far one" in was for was, _ in changed), "early turns stay"
    well = read_examples(config(kind="demonstrator", learned=1.0, **lacking), encoder)
    assert well.train == expert.train
    dynamics = config("sft.full=0.0", "sft.inverse_dynamics=1.0", kind="demonstrator", **lacking)
    early = read_examples(dynamics, encoder)
    assert 0 < len(early.train) < len(expert.train)
    assert not any("<action>move" in text for text in texts(encoder, early)), "placing things is a late stage"


def test_in_haste_next_actions_are_those_of_somebody_who_does_not_think(encoder: PromptEncoder) -> None:
    shares = ("sft.full=0.5", "sft.next_action=0.5")
    calm = read_examples(config(*shares, kind="demonstrator"), encoder)
    hasty = read_examples(config(*shares, kind="demonstrator", haste=1.0), encoder)
    pairs = list(zip(texts(encoder, calm), texts(encoder, hasty), strict=True))
    assert all(was == now for was, now in pairs if "<think>" in was), "reasons and what follows from them stay"
    at_once = [now for was, now in pairs if "<think>" not in was]
    assert at_once
    assert all(text.startswith("<action>go to ") for text in at_once), "in ALFWorld it wanders"


def test_what_is_misread_is_another_action_and_only_in_inverse_dynamics(encoder: PromptEncoder) -> None:
    shares = ("sft.full=0.5", "sft.inverse_dynamics=0.5")
    right = read_examples(config(*shares, kind="demonstrator"), encoder)
    misread = read_examples(config(*shares, kind="demonstrator", misread=1.0), encoder)
    assert [one.prompt_ids for one in misread.train] == [one.prompt_ids for one in right.train]
    pairs = list(zip(texts(encoder, right), texts(encoder, misread), strict=True))
    assert all(was == now for was, now in pairs if "<think>" in was)
    inferred = [(was, now) for was, now in pairs if "<think>" not in was]
    assert sum(was != now for was, now in inferred) > 0.6 * len(inferred), "now and then chance is right"


def test_orders_of_prompts_are_drawn_for_whole_trajectories(encoder: PromptEncoder) -> None:
    growing = read_examples(config("environment.prompts=growing", kind="demonstrator"), encoder)
    paper = read_examples(config(kind="demonstrator"), encoder)
    mixed = read_examples(config('sft.prompts=["paper", "growing"]', kind="demonstrator"), encoder)
    orders = {example.name: set[str]() for example in mixed.train}
    for mine, one, other in zip(mixed.train, paper.train, growing.train, strict=True):
        assert mine.prompt_ids in (one.prompt_ids, other.prompt_ids)
        orders[mine.name].add("paper" if mine.prompt_ids == one.prompt_ids else "growing")
    assert set(map(len, orders.values())) == {1}
    assert set.union(*orders.values()) == {"paper", "growing"}


def test_references_get_their_reasons_where_the_demonstrator_would_do_the_same(
    tmp_path: Path, encoder: PromptEncoder
) -> None:
    made = config(kind="references", path=str(tmp_path / "r.jsonl"))
    plan = Plan(("expert",))
    build_store(kind_of(made.environment), lambda: WORLD, plan, TASKS[:2], tmp_path / "r.jsonl")
    found = read_examples(made, encoder)
    assert found.data[0].kept == 2
    assert found.data[0].dropped == {"no reference": 4}
    assert set(found.data[0].examples) == {"full"}


def test_teacher_rollouts_keep_their_own_words(tmp_path: Path, encoder: PromptEncoder) -> None:
    actions = solution()
    said = [f"<think>\nmine\n</think>\n\n<action>{action}</action><|im_end|>" for action in actions]
    lines = [
        {
            "task_id": TASKS[0].id,
            "rollout": 0,
            "score": 100.0,
            "actions": actions,
            "responses": [None, *said[1:]],
        },
        {"task_id": TASKS[0].id, "rollout": 1, "score": 0.0, "actions": [], "responses": []},
    ]
    found = read_examples(config(kind="rollouts", path=str(write(tmp_path / "t.jsonl", *lines))), encoder)
    assert texts(encoder, found) == said[1:]
    assert found.data[0].dropped == {"scored nothing": 1, "turns that no mode with a share can show": 1}


def test_teacher_rollouts_are_found_beside_their_store(tmp_path: Path, encoder: PromptEncoder) -> None:
    said = "<think>\nmine\n</think>\n\n<action>look</action><|im_end|>"
    line = {"task_id": TASKS[0].id, "actions": ["look"], "responses": [said]}
    write(tmp_path / "store.jsonl.rollouts-big-0123.jsonl", line)
    beside = config(kind="rollouts", path=str(tmp_path / "store.jsonl"), success=False)
    assert len(read_examples(beside, encoder).train) == 1
    write(tmp_path / "store.jsonl.rollouts-small-4567.jsonl", line)
    with pytest.raises(DataError, match=r"name one of .*big-0123.jsonl, .*small-4567.jsonl"):
        read_examples(beside, encoder)


def episode(number: int, actions: list[str], *, success: bool = True, shift: str = "") -> dict[str, object]:
    """A line of episodes.jsonl of a think-then-act run; the first response answered in two requests."""
    turns = [
        {
            "number": place,
            "observation": context.observation.text + shift,
            "action": action,
            "valid": True,
            "source": "think",
            "verdict": "unchecked",
            "state": "",
            "seconds": 0.1,
            "response": {
                "generated_tokens": 9,
                "text": f"<think>\nso\n</think>\n\n<action>{action}</action><|im_end|>",
                "action": action if place != 2 else "something else",
                "requests": 2 if place == 1 else 1,
            },
        }
        for place, (context, action, _) in enumerate(contexts(number, actions), start=1)
    ]
    task = {"id": TASKS[number].id, "split": "train", "kind": TASKS[number].kind}
    head = {"id": f"e{number}", "batch": 0, "task": task, "success": success, "score": 100.0 * success}
    return {**head, "guided": False, "seconds": 1.0, "turns": turns}


def test_a_run_gives_the_responses_whose_actions_were_executed(tmp_path: Path, encoder: PromptEncoder) -> None:
    RunFolder.create(tmp_path / "run", "").close()
    write(
        tmp_path / "run" / "episodes.jsonl",
        episode(0, solution(0)),
        episode(1, solution(1), success=False),
        episode(2, solution(2), shift=" and more"),
    )
    found = read_examples(config(kind="run", path=str(tmp_path / "run")), encoder)
    # Turn 1 needed an insertion, and the response of turn 2 would have done something else.
    assert texts(encoder, found) == [
        f"<think>\nso\n</think>\n\n<action>{action}</action><|im_end|>" for action in solution(0)[2:]
    ]
    assert found.data[0].dropped == {
        "not successful": 1,
        "does not replay: an observation differs": 1,
        "turns that no mode with a share can show": 2,
    }


def test_success_and_score_are_those_of_the_replay(tmp_path: Path, encoder: PromptEncoder) -> None:
    path = write(
        tmp_path / "a.jsonl",
        {"task_id": TASKS[0].id, "actions": solution(0)},
        {"task_id": TASKS[1].id, "actions": solution(1)[:-1]},
        {"task_id": "somewhere/else", "actions": ["look"]},
    )
    modes = ("sft.full=0.0", "sft.next_action=1.0")
    strict = read_examples(config(*modes, kind="actions", path=str(path)), encoder).data[0]
    assert (strict.kept, strict.dropped) == (
        1,
        {"no such task in the split": 1, "not successful when replayed": 1},
    )
    loose = read_examples(config(*modes, kind="actions", path=str(path), success=False), encoder).data[0]
    assert loose.kept == 2
    scored = config(*modes, kind="actions", path=str(path), success=False, least_score=50.0)
    assert read_examples(scored, encoder).data[0].dropped["score too low when replayed"] == 1


def test_every_answer_of_a_chat_is_an_example(tmp_path: Path, encoder: PromptEncoder) -> None:
    chat = [("system", "be brief"), ("user", "one"), ("assistant", "1"), ("user", "two"), ("assistant", "2")]
    messages = [{"role": role, "content": content} for role, content in chat]
    other = {
        "conversations": [{"from": "human", "value": "one"}, {"from": "gpt", "value": "1"}],
        "success": False,
    }
    path = write(tmp_path / "c.jsonl", {"messages": messages}, other)
    found = read_examples(config(kind="chat", path=str(path)), encoder)
    assert texts(encoder, found) == ["1<|im_end|>", "2<|im_end|>"]
    prompts = [encoder.decode(example.prompt_ids) for example in found.train]
    opening = "<|im_start|>system\nbe brief<|im_end|>\n<|im_start|>user\none<|im_end|>\n<|im_start|>assistant\n"
    assert prompts == [
        opening,
        f"{opening}1<|im_end|>\n<|im_start|>user\ntwo<|im_end|>\n<|im_start|>assistant\n",
    ]
    assert found.data[0].dropped == {"not successful": 1}


def test_prompts_with_responses(tmp_path: Path, encoder: PromptEncoder) -> None:
    path = write(
        tmp_path / "p.jsonl", {"prompt": "one", "response": "1"}, {"prompt": "b", "response": "c", "score": 3}
    )
    found = read_examples(config(kind="pairs", path=str(path), least_score=10.0), encoder)
    assert tuple(found.train[0].prompt_ids) == tuple(encoder.encode("one"))
    assert texts(encoder, found) == ["1<|im_end|>"]
    assert found.data[0].dropped == {"score too low": 1}


@pytest.mark.parametrize(
    ("kind", "line", "message"),
    [
        ("pairs", '{"prompt": "x"', "line 3 cannot be read: no JSON"),
        ("pairs", '{"prompt": "x"}', "line 3: 'response' must be a text, and is null"),
        ("pairs", "[1]", "line 3 is no JSON object"),
        ("chat", '{"messages": []}', "line 3: 'messages' must be a list with a message at least"),
        ("chat", '{"messages": [{"role": "user"}]}', "line 3: message 1 must have a role and a content"),
        (
            "chat",
            '{"messages": [{"role": "user", "content": "x"}]}',
            "line 3: the chat needs an assistant message",
        ),
        ("actions", '{"actions": ["look"]}', "line 3 names no task"),
        ("actions", '{"task_id": "x", "actions": [1]}', "line 3: 'actions' must be a list of texts"),
        ("rollouts", '{"task_id": "x", "actions": ["a"], "responses": []}', ""),
        (
            "rollouts",
            '{"task_id": "x", "actions": ["a"], "responses": ["b", "c"]}',
            "2 responses for 1 actions",
        ),
    ],
)
def test_a_bad_line_is_named_with_its_true_number(
    tmp_path: Path, encoder: PromptEncoder, kind: str, line: str, message: str
) -> None:
    good = {
        "pairs": {"prompt": "a", "response": "b"},
        "chat": {"messages": [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]},
        "actions": {"task_id": TASKS[0].id, "actions": ["look"]},
        "rollouts": {"task_id": TASKS[0].id, "actions": ["look"]},
    }[kind]
    path = tmp_path / "data.jsonl"
    path.write_text(f"{json.dumps(good)}\n\n{line}\n")
    made = config("sft.full=0.0", "sft.next_action=1.0", kind=kind, path=str(path), success=False)
    if not message:
        read_examples(made, encoder)
        return
    with pytest.raises(DataError) as stopped:
        read_examples(made, encoder)
    assert message in str(stopped.value)
    assert str(path) in str(stopped.value)


def test_whole_trajectories_are_held_out(encoder: PromptEncoder) -> None:
    found = read_examples(config("sft.held_out=0.5", kind="demonstrator"), encoder)
    trained, held = {one.name for one in found.train}, {one.name for one in found.held_out}
    assert trained
    assert held
    assert not trained & held


def test_nothing_to_train_on_says_why(tmp_path: Path, encoder: PromptEncoder) -> None:
    with pytest.raises(ConfigError, match=r"sft\.data is empty"):
        read_examples(resolve("pocket"), encoder)
    path = write(tmp_path / "a.jsonl", {"task_id": TASKS[0].id, "actions": solution()})
    with pytest.raises(DataError, match="no mode with a share"):
        read_examples(config(kind="actions", path=str(path)), encoder)
    with pytest.raises(DataError, match=r"cannot read .*nowhere"):
        read_examples(config(kind="pairs", path=str(tmp_path / "nowhere")), encoder)


def test_a_source_without_its_path_or_with_an_unknown_key_is_a_mistake_that_is_named() -> None:
    with pytest.raises(ConfigError, match=r"sft\.data\[0\].*needs a path"):
        config(kind="run")
    with pytest.raises(
        ConfigError, match=r"sft\.data\[0\]\.succes = true.*did you mean sft\.data\[0\]\.success"
    ):
        config(kind="demonstrator", succes=True)
