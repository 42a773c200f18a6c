"""Makes lines of episodes.jsonl by hand, for tests of what reads them."""

from __future__ import annotations

from collections.abc import Sequence


def turn(number: int, seconds: float = 1.0, **fields: object) -> dict[str, object]:
    """A valid turn in a state of its own; `fields` replaces what matters to a test."""
    return {
        "number": number,
        "observation": f"You see {number}.",
        "action": f"do {number}",
        "valid": True,
        "source": "think",
        "verdict": "unchecked",
        "state": f"s{number}",
        "seconds": seconds,
        "requests": [],
        "response": None,
        **fields,
    }


def response(text: str, tokens: int = 10, reasoning: int | None = None) -> dict[str, object]:
    return {
        "prompt_tokens": 5,
        "tokens": tokens,
        "generated_tokens": tokens,
        "text": text,
        "action": None,
        "reasoning_tokens": reasoning,
    }


def episode(turns: Sequence[dict[str, object]], *, ended: float = 0.0, **fields: object) -> dict[str, object]:
    return {
        "id": "b00000-000",
        "batch": 0,
        "task": {"id": "task", "split": "train", "kind": "kind"},
        "success": False,
        "score": 0.0,
        "guided": False,
        "reference_length": 0,
        "error": None,
        "seconds": sum(float(str(one["seconds"])) for one in turns),
        "ended": ended,
        "final_observation": "The end.",
        "turns": list(turns),
        **fields,
    }
