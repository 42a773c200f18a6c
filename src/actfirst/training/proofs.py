"""What is proven before anything is trained: the parts fit together.

By files alone: engines are installed; student and teacher share the tokenizer; limits fit the models. By asking: the
engine's sampling log-probs are those of its own scoring; the teacher returns one finite log-prob per token; where fast
actions advance the environment, the student answers with actions and not with reasoning. Of a
teacher on servers that somebody else runs, each server is asked: it serves the model and returns the log-probs of
prompts; sequences of full length fit; its token ids mean what the student's mean; its log-probs are those of the
model's own distribution, at temperature 1 and with nothing cut off; all servers hold the same weights.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.config.config import Config
from actfirst.config.sections import Generation
from actfirst.engines.base import Engine, Sampling
from actfirst.engines.open import NoTeacher
from actfirst.engines.remote import RemoteEngine
from actfirst.engines.remote.replicas import Replica
from actfirst.errors import (
    CheckpointError,
    ConfigError,
    EngineError,
    EnvironmentFailure,
    EpisodeError,
    TaskError,
    TeacherError,
)
from actfirst.methods.acting import Policy
from actfirst.methods.table import ResponseTiming, method_of
from actfirst.models.folder import read_config
from actfirst.models.tokenizer import open_tokenizer
from actfirst.policy.chat_template import Ending, opens_reasoning
from actfirst.policy.parsing import THINK
from actfirst.records import FastAction, Task, TurnContext
from actfirst.rollout.play import Player
from actfirst.seeds import derive_seed

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

_PROBE = "Say what you would do next.\nYou are in the middle of a room. Looking around, you see a cabinet 1."
_PROBE_TOKENS = 16
# Scoring and sampling run through different batch shapes, so they round differently.
_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5}
_TEXT = (
    "You are in the middle of a room. Looking quickly around you, you see a cabinet 1, a drawer 12 and a café's "
    "fridge.\nYour task is to: put a clean cup on the table.\n\n<action>go to table 1</action>"
)
_FAST_ACTIONS = 4
_REMEDIES = {
    Ending.OPEN: 'set rollout.generation.fast_reasoning = "closed"',
    Ending.CLOSED: 'set rollout.generation.fast_reasoning = "prefill"',
    Ending.PREFILLED: "choose another student, or a method that thinks before it acts (`actfirst methods`)",
}
_PADDING = re.compile(
    r"pad|extra|unused|reserved|dummy", re.IGNORECASE
)  # how families name tokens that fill up
_SPREAD = 200  # ids over the whole vocabulary whose texts are compared
_IMPOSSIBLE = -1000.0  # no softmax over a vocabulary gives this; servers write it for "cut off"
_SAME_WEIGHTS = 0.5  # log-prob; two servers in bfloat16 differ by less, two models by far more


def check_installed(config: Config) -> None:
    """Refuse an engine or a runtime that is not installed."""
    for key, kind in (("engine.kind", config.engine.kind), ("teacher.kind", config.teacher.kind)):
        if kind == "vllm" and find_spec("vllm") is None:
            raise ConfigError(
                f"{key} = \"vllm\": vLLM is not installed; pip install 'actfirst[vllm]' on a machine with a GPU "
                f'(docs/engines.md says how on a CPU), or set {key} = "embedded"'
            )
    if config.runtime.kind == "ray" and find_spec("ray") is None:
        raise ConfigError(
            "runtime.kind = \"ray\" needs Ray: pip install 'actfirst[ray]'; or train in one process with "
            "runtime.kind=local and one of each part"
        )


def check_tokenizers(student: Path, teacher: Path) -> None:
    """Refuse a teacher whose token ids mean something else."""
    ours, theirs = (open_tokenizer(path).backend_tokenizer for path in (student, teacher))
    if not same_but_for_padding(ours.get_vocab(), theirs.get_vocab()):
        sizes = [tokenizer.get_vocab_size() for tokenizer in (ours, theirs)]
        raise TeacherError(
            f"student {student} ({sizes[0]} tokens) and teacher {teacher} ({sizes[1]} tokens) do not share a "
            "tokenizer; token-level distillation needs the same vocabulary: choose models of one family"
        )
    if ours.encode(_PROBE).ids != theirs.encode(_PROBE).ids:
        raise TeacherError(
            f"student {student} and teacher {teacher} share a vocabulary but tokenise differently; "
            "use the same tokenizer.json for both"
        )


def same_but_for_padding(ours: Mapping[str, int], theirs: Mapping[str, int]) -> bool:
    """Whether two vocabularies give the same ids to the same tokens, but for tokens at the end that mean nothing."""
    shared = ours.keys() & theirs.keys()
    last = max((ours[token] for token in shared), default=-1)
    rest = [(token, ids[token]) for ids in (ours, theirs) for token in ids.keys() - shared]
    return all(ours[token] == theirs[token] for token in shared) and all(
        place > last and _PADDING.search(token) for token, place in rest
    )


def check_limits(config: Config, student: Path, teacher: Path | None) -> None:
    """Refuse limits that a model's positions cannot hold; `teacher` is None where it is on a server or not asked."""
    for who, path in (("student", student), ("teacher", teacher)):
        if path is None:
            continue
        positions = _positions(path)
        for key, limits in _limits(config).items():
            longest = _longest(limits)
            if longest > positions:
                raise ConfigError(
                    f"{key}: prompt_limit + response_limit = {longest} tokens, but the {who} ({path}) has "
                    f"{positions} positions; lower {key}.prompt_limit to at most "
                    f"{positions - longest + limits.prompt_limit}"
                )


def _positions(path: Path) -> int:
    try:
        return int(read_config(path)["max_position_embeddings"])
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path / 'config.json'} is not the configuration of a model ({error}); restore the checkpoint"
        ) from error


def _limits(config: Config) -> dict[str, Generation]:
    return {
        "rollout.generation": config.rollout.generation,
        "evaluation.generation": config.evaluation.generation,
    }


def _longest(limits: Generation) -> int:
    return limits.prompt_limit + max(limits.response_limit, limits.fast_limit)


async def prove_parts(
    config: Config,
    student: Path,
    player: Player,
    tasks: Sequence[Task],
    teacher: Engine,
    log: Callable[[str], None],
) -> None:
    """Everything that can be proven only by asking the engines; what is doubtful goes to the log. A teacher that nobody
    asks has nothing to prove."""
    if isinstance(teacher, RemoteEngine):
        await prove_served(config, student, teacher)
    await prove_scoring(player.policy, teacher, config.engine.dtype)
    if method_of(config.rollout.method, config.methods).responses is ResponseTiming.DEFERRED:
        answers = await try_fast_actions(player, tasks)
        if doubt := doubt_about(answers, player.policy):
            log(doubt)


async def try_fast_actions(player: Player, tasks: Sequence[Task]) -> list[FastAction]:
    """A handful of fast actions from the first contexts of tasks, in both modes where there are references.

    They have seeds of their own and leave no trace. A task that cannot begin is passed over: its episode will say why.
    """
    answers: list[FastAction] = []
    for task in tasks[:_FAST_ACTIONS]:
        seed = derive_seed("proof of fast actions", task.id)
        try:
            reference = player.references.get(task)
            async with player.pool.lease() as environment:
                instruction, seen = await environment.reset(task)
            context = TurnContext(instruction, (), seen, 1)
            answers.append(await player.policy.act_fast(context, seed))
            if reference is not None:
                answers.append(await player.policy.act_fast(context, seed, reference.steps[0].observation.text))
        except (EpisodeError, EnvironmentFailure, TaskError):
            continue
        if len(answers) >= _FAST_ACTIONS:
            break
    return answers


def doubt_about(answers: Sequence[FastAction], policy: Policy) -> str:
    """What to say of a student few of whose fast actions can be read; ConfigError if it reasons instead."""
    read = [answer for answer in answers if answer.action]
    if 2 * len(read) >= len(answers):
        return ""
    limits, ending = policy.generation, Ending(policy.generation.fast_reasoning)
    unread = [answer.text for answer in answers if not answer.action]
    said = (
        f"the student was asked for {len(answers)} fast actions, and {len(read)} could be read within "
        f"rollout.generation.fast_limit = {limits.fast_limit} tokens; one answer began {unread[0][:60]!r}"
    )
    reasoning = sum(text.lstrip().startswith(THINK) for text in unread)
    begun = opens_reasoning(policy.encoder.decode(policy.encoder.encode(_PROBE, ending)))
    if not read and (begun or 2 * reasoning > len(unread)):
        raise ConfigError(f"{said}: it reasons where it should act at once; {_REMEDIES[ending]}")
    return f"{said}; turns without an action are wasted, so look at the student's prompts and chat template"


async def prove_scoring(policy: Policy, teacher: Engine, dtype: str) -> None:
    """Sample a few tokens; the student's own scores must give the sampling log-probs back."""
    prompt = policy.encoder.encode(_PROBE)
    completion = await policy.engine.generate(prompt, Sampling(_PROBE_TOKENS, seed=0))
    own = await policy.engine.score(prompt, completion.token_ids)
    worst = max(abs(a - b) for a, b in zip(own, completion.logprobs, strict=True))
    if not worst <= _TOLERANCE[dtype]:
        raise EngineError(
            f"the engine's sampling log-probs and its scores differ by up to {worst:.3g} "
            f"(allowed: {_TOLERANCE[dtype]:g} in {dtype}); advantages would be wrong"
        )
    if isinstance(teacher, NoTeacher):
        return
    scores = await teacher.score(prompt, completion.token_ids)
    if len(scores) != len(completion.token_ids) or not all(map(math.isfinite, scores)):
        raise TeacherError(f"the teacher did not return a finite log-prob per token: {scores!r}")


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
    for key, limits in _limits(config).items():
        asked = key.startswith("rollout") or config.evaluation.teacher
        longest = _longest(limits) + 1
        if asked and positions is not None and longest > positions:
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
