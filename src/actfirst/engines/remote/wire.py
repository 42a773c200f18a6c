"""What is asked of an OpenAI-compatible completions server, and how its answers are read. No network here.

Prompt log-probs come in two dialects: vLLM's `prompt_logprobs`, and the `echo` of the original completions API.
Temperature, top-p and top-k are always sent: a server fills what is left out from the model's own defaults.
Every number is checked for what it says it is: a log-prob of +50 would be trained on like any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from actfirst.engines.base import Sampling
from actfirst.records import Completion, StopReason

COMPLETIONS = "/v1/completions"
MODELS = "/v1/models"
TOKENIZE = "/tokenize"

_ROUNDING = 1e-3  # a log-prob may be so much above 0, by the server's own rounding
_LEAST_LOGPROB = -1e4  # vLLM writes -9999 for a token that has no probability
_MOST_IDS = 2**31

Json = Mapping[str, object]
Reader = Callable[[Json], bool]


class Malformed(Exception):
    """An answer that is not what was asked for."""


@dataclass(frozen=True, slots=True)
class ScoredPrompt:
    """One log-prob for each id but the first; `texts` of all ids, None where the server gives none."""

    logprobs: tuple[float, ...]
    texts: tuple[str | None, ...]


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that a server lists; `positions` is None where it does not say how long a sequence may be."""

    name: str
    positions: int | None


class Dialect(Protocol):
    """One way to ask for the log-probs of a prompt."""

    @property
    def name(self) -> str: ...

    def request(self, model: str, ids: Sequence[int], temperature: float = 1.0) -> Json: ...

    def read(self, answer: Json, ids: Sequence[int]) -> ScoredPrompt: ...


class PromptLogprobs:
    """vLLM's parameter: one table per prompt token, from token id to log-prob."""

    name = "prompt_logprobs"

    def request(self, model: str, ids: Sequence[int], temperature: float = 1.0) -> Json:
        return {**_scoring(model, ids, temperature), "prompt_logprobs": 0, "top_k": -1}

    def read(self, answer: Json, ids: Sequence[int]) -> ScoredPrompt:
        rows = _list(_choice(answer), "prompt_logprobs")
        if len(rows) != len(ids):
            raise Malformed(f"{len(rows)} prompt log-probs for {len(ids)} tokens")
        entries = [_mapping(_mapping(row).get(str(i))) for row, i in zip(rows[1:], ids[1:], strict=True)]
        texts = [entry.get("decoded_token") for entry in entries]
        return ScoredPrompt(
            tuple(_logprob(entry.get("logprob")) for entry in entries),
            (None, *(text if isinstance(text, str) else None for text in texts)),
        )


class Echo:
    """The original API: the prompt is echoed as if generated, with a log-prob for each token but the first."""

    name = "echo"

    def request(self, model: str, ids: Sequence[int], temperature: float = 1.0) -> Json:
        return {**_scoring(model, ids, temperature), "echo": True, "logprobs": 1}

    def read(self, answer: Json, ids: Sequence[int]) -> ScoredPrompt:
        logprobs = _mapping(_choice(answer).get("logprobs"))
        values = _list(logprobs, "token_logprobs")
        if len(values) - len(ids) not in (0, 1):  # one token is generated, because not all servers allow 0
            raise Malformed(f"{len(values)} echoed log-probs for {len(ids)} tokens")
        texts = logprobs.get("tokens")
        told = texts[: len(ids)] if isinstance(texts, list) else [None] * len(ids)
        return ScoredPrompt(
            tuple(_logprob(value) for value in values[1 : len(ids)]),
            tuple(text if isinstance(text, str) else None for text in told),
        )


DIALECTS: tuple[Dialect, ...] = (PromptLogprobs(), Echo())


def generation_request(model: str, ids: Sequence[int], sampling: Sampling) -> Json:
    """Ask for a completion with its token ids, which only some servers (vLLM) return."""
    body: dict[str, object] = {
        "model": model,
        "prompt": list(ids),
        "max_tokens": sampling.max_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k or -1,
        "logprobs": 0,
        "return_token_ids": True,
        "skip_special_tokens": False,
        "ignore_eos": sampling.ignore_eos,
    }
    if sampling.stop:
        body["stop"] = list(sampling.stop)
    if sampling.seed is not None:
        body["seed"] = sampling.seed % 2**63  # servers keep it in a signed 64-bit integer
    return body


def read_completion(answer: Json, most: int) -> Completion:
    """A completion of at most `most` tokens."""
    choice = _choice(answer)
    ids = choice.get("token_ids")
    if not isinstance(ids, list):
        raise Malformed("the completion carries no token_ids")
    values = _list(_mapping(choice.get("logprobs")), "token_logprobs")
    if len(values) != len(ids):
        raise Malformed(f"{len(values)} log-probs for {len(ids)} tokens")
    if len(ids) > most:
        raise Malformed(f"{len(ids)} tokens where at most {most} were asked for")
    return Completion(tuple(map(_token_id, ids)), tuple(map(_logprob, values)), _stop_reason(choice), 0)


def read_models(answer: Json) -> tuple[ServedModel, ...]:
    found = []
    for entry in map(_mapping, _list(answer, "data")):
        positions = entry.get("max_model_len")
        if isinstance(positions, bool) or not isinstance(positions, int) or positions <= 0:
            positions = None
        found.append(ServedModel(str(entry.get("id")), positions))
    return tuple(found)


def tokenize_request(model: str, text: str) -> Json:
    return {"model": model, "prompt": text, "add_special_tokens": False}


def read_tokens(answer: Json) -> tuple[int, ...]:
    return tuple(map(_token_id, _list(answer, "tokens")))


def _scoring(model: str, ids: Sequence[int], temperature: float) -> dict[str, object]:
    return {"model": model, "prompt": list(ids), "max_tokens": 1, "temperature": temperature, "top_p": 1.0}


def _stop_reason(choice: Json) -> StopReason:
    if choice.get("finish_reason") == "length":
        return StopReason.LENGTH
    return StopReason.STOP_STRING if isinstance(choice.get("stop_reason"), str) else StopReason.EOS


def _choice(answer: Json) -> Json:
    choices = _list(answer, "choices")
    if len(choices) != 1:
        raise Malformed(f"{len(choices)} choices where one was asked for")
    return _mapping(choices[0])


def _list(table: Json, key: str) -> list[object]:
    value = table.get(key)
    if not isinstance(value, list):
        raise Malformed(f"no list {key!r} in the answer")
    return value


def _mapping(value: object) -> Json:
    if not isinstance(value, Mapping):
        raise Malformed(f"{str(value)[:80]!r} where a table was expected")
    return value


def _logprob(value: object) -> float:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not _LEAST_LOGPROB <= value <= _ROUNDING
    ):
        raise Malformed(f"{str(value)[:80]!r} where a log-prob was expected, a number of at most 0")
    return min(0.0, float(value))


def _token_id(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _MOST_IDS:
        raise Malformed(f"{str(value)[:80]!r} where the id of a token was expected")
    return value
