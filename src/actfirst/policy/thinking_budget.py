"""The budgeted decoder of full think-then-act responses (paper, appendix "Thinking Budget").

At most two requests. The first may end on its own; if it runs into its limit instead, the early-stop
instruction of `early_stop.txt` is inserted where needed and a second request writes the action. Inserted
tokens count toward the total, stay in the context of student and teacher, and are masked from supervision.

Fast actions do not come through here. The limits themselves (384 of 512 in training, 1,920 of 2,048 in
evaluation) are configuration.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from actfirst.engines.base import Engine, Priority, Sampling
from actfirst.policy.parsing import END_THINK, THINK, Reached, extract_action, reached_by
from actfirst.records import Completion, Response, StopReason
from actfirst.seeds import derive_seed

Decode = Callable[[Sequence[int]], str]
Encode = Callable[[str], list[int]]

_OPENED_WITHIN = 16  # tokens: enough for "<think>\n" however a tokenizer cuts it


@dataclass(frozen=True, slots=True)
class ThinkingBudget:
    """Limits in tokens: of the first request, of the whole response, of the second request."""

    first_stage: int
    total: int
    continuation: int = 128

    def __post_init__(self) -> None:
        if not 0 < self.first_stage <= self.total:
            raise ValueError(f"need 0 < first_stage <= total, got {self.first_stage} and {self.total}")
        if self.continuation <= 0:
            raise ValueError(f"need continuation > 0, got {self.continuation}")


async def think_then_act(
    engine: Engine,
    decode: Decode,
    encode: Encode,
    prompt_ids: Sequence[int],
    budget: ThinkingBudget,
    *,
    temperature: float = 1.0,
    top_p: float = 1.0,
    top_k: int = 0,
    seed: int | None = None,
    priority: Priority = Priority.FULL,
) -> Response:
    """Generate one full response within `budget`.

    `decode` must keep special tokens and `encode` must read them (`PromptEncoder.decode`, `.encode_markup`):
    the think tags are such tokens in some models.
    """
    prompt = tuple(prompt_ids)
    # Some chat templates open the reasoning themselves; the response then begins inside it.
    opened = THINK if decode(prompt[-_OPENED_WITHIN:]).rstrip().endswith(THINK) else ""

    first = await engine.generate(
        prompt, Sampling(budget.first_stage, temperature, top_p, top_k, seed=seed), priority
    )
    if first.stop_reason is not StopReason.LENGTH:
        return _response(prompt, first, (), None, decode, opened)
    reached = reached_by(opened + decode(first.token_ids))
    if reached is Reached.ACTED:
        return _response(prompt, first, (), None, decode, opened)

    inserted = tuple(encode(insertion)) if (insertion := _insertion(reached)) else ()
    remaining = budget.total - len(first.token_ids) - len(inserted)
    if remaining <= 0:
        # Inserting without room for an answer would only add tokens that nobody continues.
        return _response(prompt, first, (), None, decode, opened)
    second = await engine.generate(
        prompt + first.token_ids + inserted,
        Sampling(min(budget.continuation, remaining), temperature, top_p, top_k, seed=_second_seed(seed)),
        priority,
    )
    return _response(prompt, first, inserted, second, decode, opened)


@cache
def early_stop() -> str:
    """The inserted text when reasoning is still open, exactly as the paper prints it."""
    return (files("actfirst.policy") / "early_stop.txt").read_text(encoding="utf-8")


def _insertion(reached: Reached) -> str:
    match reached:
        case Reached.REASONING:
            return early_stop()
        case Reached.REASONED:
            return early_stop().replace(f"{END_THINK}\n", "")
        case _:
            return ""


def _second_seed(seed: int | None) -> int | None:
    # The same seed would draw the same random numbers twice.
    return None if seed is None else derive_seed("second request", seed)


def _response(
    prompt: tuple[int, ...],
    first: Completion,
    inserted: tuple[int, ...],
    second: Completion | None,
    decode: Decode,
    opened: str,
) -> Response:
    parts = [first] if second is None else [first, second]
    last = parts[-1]
    gap = len(inserted)
    tail_ids, tail_logprobs = (second.token_ids, second.logprobs) if second else ((), ())
    token_ids = first.token_ids + inserted + tail_ids
    text = decode(token_ids)
    mask = (1,) * len(first.token_ids) + (0,) * gap + (1,) * len(tail_ids)
    truncated = last.stop_reason is StopReason.LENGTH and reached_by(opened + text) is not Reached.ACTED
    return Response(
        prompt_ids=prompt,
        token_ids=token_ids,
        logprobs=first.logprobs + (0.0,) * gap + tail_logprobs,
        mask=mask,
        text=text,
        action=None if truncated else extract_action(text),
        truncated=truncated,
        stop_reason=last.stop_reason,
        requests=len(parts),
        # Weights may have been swapped between the two requests. The bound on staleness is about the oldest
        # policy that sampled any of the tokens, so the older version speaks for the whole response.
        version=min(part.version for part in parts),
        reasoning_tokens=sum(mask[: _reasoning(token_ids, opened + text, decode)]),
    )


def _reasoning(token_ids: Sequence[int], text: str, decode: Decode) -> int:
    """How many tokens there are up to and including the end of reasoning; all of them if it never ended."""
    if END_THINK not in text:
        return len(token_ids) if reached_by(text) is Reached.REASONING else 0
    return bisect_left(range(len(token_ids)), True, key=lambda length: END_THINK in decode(token_ids[:length]))
