"""GiGPO with a reward that random models earn too: they never succeed, so it is the share of even token ids."""

from __future__ import annotations

from actfirst.methods.acting import ThinkThenAct
from actfirst.methods.group_objective import GroupRelative
from actfirst.methods.table import Method, ResponseTiming, register_method
from actfirst.records import Episode

NAME = "even-tokens"
GROUPS = (
    "rollout.group_size=3",
    "rollout.tasks_per_batch=2",
    f"rollout.method={NAME}",
    "learner.batch_size=4",
    "learner.whole_batches=true",
    "learner.aggregation=token-mean",
    "run.updates=3",
)
ALONE = tuple(
    f"{who}.{setting}"
    for who in ("engine", "teacher")
    for setting in ("max_concurrency=1", "prefix_caching=false")
)
"""What is computed together is a matter of timing, and rounds differently. Alone, everything is equal bit for bit."""


def even_share(episode: Episode) -> float:
    said = [token for turn in episode.turns if turn.response for token in turn.response.token_ids]
    return sum(token % 2 == 0 for token in said) / len(said)


EVEN = Method("Even tokens", ThinkThenAct(), ResponseTiming.INLINE, objective=GroupRelative(reward=even_share))


def register() -> None:
    """For a process of its own."""
    register_method(NAME, EVEN)
