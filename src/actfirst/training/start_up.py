"""What start-up proves before anything is trained: the parts fit together.

Student and teacher share the tokenizer; limits fit the models; the engine's sampling log-probs are those of its
own scoring; the teacher returns one finite log-prob per token. What is proven of a teacher that somebody else runs
stands in `served_teacher.py`.
"""

from __future__ import annotations

import json
import math
from importlib.util import find_spec
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.sections import Generation
from actfirst.engines.base import Engine, Sampling
from actfirst.engines.remote import RemoteEngine
from actfirst.errors import CheckpointError, ConfigError, EngineError, TeacherError
from actfirst.methods.acting import Policy
from actfirst.training.served_teacher import prove_served

_PROBE = "Say what you would do next.\nYou are in the middle of a room. Looking around, you see a cabinet 1."
_PROBE_TOKENS = 16
# Scoring and sampling run through different batch shapes, so they round differently.
_TOLERANCE = {"float32": 1e-3, "bfloat16": 0.5}


def check_engines(config: Config) -> None:
    """Refuse an engine that is not installed."""
    for key, kind in (("engine.kind", config.engine.kind), ("teacher.kind", config.teacher.kind)):
        if kind == "vllm" and find_spec("vllm") is None:
            raise ConfigError(
                f"{key} = \"vllm\": vLLM is not installed; pip install 'actfirst[vllm]' on a machine with a GPU "
                f'(docs/engines.md says how on a CPU), or set {key} = "embedded"'
            )


def check_tokenizers(student: Path, teacher: Path) -> None:
    """Refuse a teacher whose token ids mean something else."""
    from transformers import AutoTokenizer

    ours, theirs = (AutoTokenizer.from_pretrained(str(path)) for path in (student, teacher))
    if ours.get_vocab() != theirs.get_vocab():
        raise TeacherError(
            f"student {student} ({len(ours)} tokens) and teacher {teacher} ({len(theirs)} tokens) do not share a "
            "tokenizer; token-level distillation needs the same vocabulary: choose models of one family"
        )
    if ours(_PROBE)["input_ids"] != theirs(_PROBE)["input_ids"]:
        raise TeacherError(
            f"student {student} and teacher {teacher} share a vocabulary but tokenise differently; "
            "use the same tokenizer.json for both"
        )


def check_limits(config: Config, student: Path, teacher: Path | None) -> None:
    """Refuse limits that a model's positions cannot hold; `teacher` is None where it is on a server."""
    for who, path in (("student", student), ("teacher", teacher)):
        if path is None:
            continue
        positions = _positions(path)
        for key, limits in _limits(config):
            longest = limits.prompt_limit + max(limits.response_limit, limits.fast_limit)
            if longest > positions:
                raise ConfigError(
                    f"{key}: prompt_limit + response_limit = {longest} tokens, but the {who} ({path}) has "
                    f"{positions} positions; lower {key}.prompt_limit to at most "
                    f"{positions - longest + limits.prompt_limit}"
                )


def _positions(path: Path) -> int:
    try:
        return int(json.loads((path / "config.json").read_text(encoding="utf-8"))["max_position_embeddings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{path / 'config.json'} is not the configuration of a model ({error}); restore the checkpoint"
        ) from error


def _limits(config: Config) -> list[tuple[str, Generation]]:
    return [
        ("rollout.generation", config.rollout.generation),
        ("evaluation.generation", config.evaluation.generation),
    ]


async def prove_parts(config: Config, student: Path, policy: Policy, teacher: Engine) -> None:
    """Everything that can be proven only by asking the engines."""
    if isinstance(teacher, RemoteEngine):
        await prove_served(config, student, teacher)
    await prove_scoring(policy, teacher, config.engine.dtype)


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
    scores = await teacher.score(prompt, completion.token_ids)
    if len(scores) != len(completion.token_ids) or not all(map(math.isfinite, scores)):
        raise TeacherError(f"the teacher did not return a finite log-prob per token: {scores!r}")
