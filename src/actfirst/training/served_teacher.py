"""What start-up proves of a teacher on servers that somebody else runs, by asking each of them.

It serves the model and returns the log-probs of prompts; sequences of full length fit; its token ids mean what the
student's mean; its log-probs are those of the model's own distribution, at temperature 1 and with nothing cut off;
all servers hold the same weights.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.config.config import Config
from actfirst.engines.remote import RemoteEngine
from actfirst.engines.remote.replicas import Replica
from actfirst.errors import ConfigError, TeacherError

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_TEXT = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a drawer 12 and a café's "
    "fridge.\nYour task is to: put a clean cup on the table.\n\n<action>go to table 1</action>"
)
_SPREAD = 200  # ids over the whole vocabulary whose texts are compared
_IMPOSSIBLE = (
    -1000.0
)  # nothing that a softmax over a vocabulary gives is so low; servers write it for "cut off"
_SAME_WEIGHTS = 0.5  # log-prob; two servers in bfloat16 differ by less, two models by far more


async def prove_served(config: Config, student: Path, teacher: RemoteEngine) -> None:
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(str(student))
    _check_positions(config, (await teacher.served()).positions)
    first: tuple[float, ...] = ()
    for replica in teacher.client.replicas.all:
        await _prove_tokenizer(tokenizer, teacher, replica)
        await _prove_temperature(tokenizer, teacher, replica)
        logprobs = (await teacher.score_all(_ids(tokenizer), only=replica)).logprobs
        first = first or logprobs
        worst = max(abs(a - b) for a, b in zip(first, logprobs, strict=True))
        if worst > _SAME_WEIGHTS:
            raise TeacherError(
                f"{replica.url} and {teacher.client.replicas.all[0].url} differ by {worst:.2f} in the log-prob of one "
                "token: they do not serve the same weights; name replicas of one model in teacher.server.urls"
            )


def _check_positions(config: Config, positions: int | None) -> None:
    """A server generates one token after what it scores, so there must be room for that too."""
    sections = [("rollout.generation", config.rollout.generation)]
    if config.evaluation.teacher:
        sections.append(("evaluation.generation", config.evaluation.generation))
    for key, limits in sections:
        longest = limits.prompt_limit + max(limits.response_limit, limits.fast_limit) + 1
        if positions is not None and longest > positions:
            raise ConfigError(
                f"{key}: scoring prompt_limit + response_limit takes {longest} positions, but the teacher's server has "
                f"{positions}; lower {key}.prompt_limit to at most {positions - longest + limits.prompt_limit}, or "
                "start the server with room for longer sequences"
            )


async def _prove_tokenizer(tokenizer: PreTrainedTokenizerFast, teacher: RemoteEngine, replica: Replica) -> None:
    """The same text gives the same ids, where the server tells; the same ids give the same texts."""
    ours, theirs = tuple(_ids(tokenizer)), await teacher.tokenize(_TEXT, replica)
    if theirs is not None and theirs != ours:
        raise TeacherError(
            f"{replica.url} tokenises differently: it makes {len(theirs)} tokens of a text of which the student makes "
            f"{len(ours)}; token-level distillation needs one tokenizer: serve a model of the student's family"
        )
    vocabulary = sorted(set(tokenizer.get_vocab().values()) - set(tokenizer.all_special_ids))
    ids = [*ours, *vocabulary[:: max(1, len(vocabulary) // _SPREAD)]]
    told = (await teacher.score_all(ids, only=replica)).texts
    compared = 0
    for i, text in zip(ids, told, strict=True):
        expected = tokenizer.decode([i])
        if text is None or "\ufffd" in expected or "\ufffd" in text:
            continue  # half a character has no text of its own
        compared += 1
        if text.strip() != expected.strip():
            raise TeacherError(
                f"{replica.url} reads token {i} as {text!r}, the student as {expected!r}; token-level distillation "
                "needs one tokenizer: serve a model of the student's family"
            )
    if theirs is None and not compared:
        raise TeacherError(
            f"{replica.url} tells neither how it tokenises nor what its tokens say, so nothing proves that its "
            "tokenizer is the student's; use a server that does, such as vLLM"
        )


async def _prove_temperature(
    tokenizer: PreTrainedTokenizerFast, teacher: RemoteEngine, replica: Replica
) -> None:
    """Asked at temperature 2, the odds of two tokens must be the same (it ignores the temperature of a request when
    it scores) or their square root (it honours it): then what it answers at temperature 1 is the model's own."""
    ids = _ids(tokenizer)[:20]
    likely, unlikely = _ids(tokenizer)[20], ids[0]

    async def odds(temperature: float) -> float:
        values = [
            (await teacher.score_all([*ids, i], temperature, replica)).logprobs[-1] for i in (likely, unlikely)
        ]
        if min(values) < _IMPOSSIBLE:
            raise TeacherError(
                f"{replica.url} cuts unlikely tokens off (top-k, top-p or min-p), so it cannot score them; serve the "
                "model without such defaults"
            )
        return values[0] - values[1]

    once, twice = await odds(1.0), await odds(2.0)
    allowed = 0.05 + 0.02 * abs(once)
    if min(abs(twice - once), abs(twice - once / 2)) > allowed:
        raise TeacherError(
            f"{replica.url}: log-odds of {once:.3f} at temperature 1 became {twice:.3f} at temperature 2, which is "
            "neither the same nor half; its log-probs are not those of the model's distribution"
        )


def _ids(tokenizer: PreTrainedTokenizerFast) -> list[int]:
    ids: list[int] = tokenizer(_TEXT, add_special_tokens=False)["input_ids"]
    return ids
