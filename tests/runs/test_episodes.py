"""Episodes as JSON: complete for a reader, free of token ids."""

from __future__ import annotations

import json
from dataclasses import replace

from actfirst.records import (
    ActionSource,
    Episode,
    FastAction,
    Mode,
    Observation,
    Response,
    StopReason,
    Task,
    Turn,
    Verdict,
    digest,
)
from actfirst.runs.episodes import EpisodeLine

PROMPT = tuple(range(900, 907))
RESPONSE = Response(
    prompt_ids=PROMPT,
    token_ids=(811, 812, 813, 814),
    logprobs=(-0.1, -0.2, 0.0, -0.3),
    mask=(1, 1, 0, 1),
    text="<think>hm</think><action>look</action>",
    action="look",
    truncated=False,
    stop_reason=StopReason.EOS,
    requests=2,
    version=3,
    reasoning_tokens=2,
    started=1000.25,
    ended=1001.75,
)
PROPOSAL = FastAction(Mode.INVERSE_DYNAMICS, 41, 5, "<action>fly</action>", "fly", 3)
TURN = Turn(
    number=1,
    observation="You are in a kitchen.",
    action="look",
    source=ActionSource.NEXT_ACTION,
    valid=True,
    verdict=Verdict.INVALID_PROPOSAL,
    requests=(PROPOSAL, replace(PROPOSAL, mode=Mode.NEXT_ACTION, text="garbled", action=None)),
    response=RESPONSE,
    state="on(cup,table)",
    seconds=0.123456789,
    started=1000.2,
    admissible=("look", "go"),
    reference_next=Observation("You see a cup.", ("take cup",)),
)
EPISODE = Episode(
    id="b0001-e02",
    task=Task("house-7", "train", "heat"),
    batch=1,
    turns=(TURN, replace(TURN, number=2, response=None, requests=(), state="")),
    final=Observation("You won.", (), done=True, success=True, score=100.0),
    guided=True,
    reference_length=6,
    seconds=1.5,
    ended=20.25,
    began=1000.0,
    instruction="Heat a cup.",
)


def test_an_episode_says_what_happened() -> None:
    record = EpisodeLine.of(EPISODE).to_json()
    turns = record.pop("turns")
    assert record == {
        "id": "b0001-e02",
        "batch": 1,
        "task": {"id": "house-7", "split": "train", "kind": "heat"},
        "success": True,
        "score": 100.0,
        "guided": True,
        "reference_length": 6,
        "error": None,
        "attempts": 1,
        "seconds": 1.5,
        "ended": 20.25,
        "instruction": "Heat a cup.",
        "final_observation": "You won.",
        "final_admissible": [],
    }
    assert isinstance(turns, list)
    first = turns[0]
    assert first.pop("state")
    assert first == {
        "number": 1,
        "observation": "You are in a kitchen.",
        "action": "look",
        "valid": True,
        "source": "next_action",
        "verdict": "invalid_proposal",
        "seconds": 0.1235,
        "requests": [
            {
                "mode": "inverse_dynamics",
                "prompt_tokens": 41,
                "tokens": 5,
                "text": "<action>fly</action>",
                "action": "fly",
                "version": 3,
                "prompt_digest": "",
            },
            {
                "mode": "next_action",
                "prompt_tokens": 41,
                "tokens": 5,
                "text": "garbled",
                "action": None,
                "version": 3,
                "prompt_digest": "",
            },
        ],
        "response": {
            "prompt_tokens": 7,
            "tokens": 4,
            "generated_tokens": 3,
            "text": "<think>hm</think><action>look</action>",
            "action": "look",
            "truncated": False,
            "stop_reason": "eos",
            "requests": 2,
            "version": 3,
            "reasoning_tokens": 2,
            "started": 0.25,
            "ended": 1.75,
            "prompt_digest": digest(PROMPT),
        },
        "started": 0.2,
        "admissible": ["look", "go"],
        "templates": [],
        "objects": [],
        "reference_next": "You see a cup.",
        "reference_admissible": ["take cup"],
    }
    assert turns[1]["response"] is None


def test_no_token_ids_are_stored() -> None:
    text = json.dumps(EpisodeLine.of(EPISODE).to_json())
    assert not any(str(token) in text for token in (*PROMPT, *RESPONSE.token_ids))


def test_equal_states_have_equal_digests_and_no_state_has_none() -> None:
    def states(*values: str) -> list[str]:
        turns = tuple(replace(TURN, state=value) for value in values)
        record = EpisodeLine.of(replace(EPISODE, turns=turns))
        return [turn.state for turn in record.turns]

    one, same, other, none = states("a" * 5000, "a" * 5000, "b", "")
    assert one == same != other
    assert len(one) == 16
    assert none == ""


def test_an_episode_that_failed_is_recorded_with_its_reason() -> None:
    record = EpisodeLine.of(replace(EPISODE, turns=(), final=None, error="PromptTooLong: 700 > 640")).to_json()
    assert record["error"] == "PromptTooLong: 700 > 640"
    assert (record["success"], record["score"], record["turns"]) == (False, 0.0, [])
