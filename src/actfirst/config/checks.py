"""Rules that span several sections of a configuration, and the names that only other packages know.

Rules inside one section stand with the section.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from actfirst.config.config import Config
from actfirst.config.mistakes import NOT_GIVEN, Mistake, source_of
from actfirst.config.schema import names
from actfirst.environments.registry import built_in_kinds, kind_of
from actfirst.references.sources import BEST


def combination_mistakes(config: Config, origins: Mapping[str, str]) -> list[Mistake]:
    """Settings that are each fine but cannot go together."""
    mistakes: list[Mistake] = []

    def refuse(key: str, given: object, remedy: str) -> None:
        mistakes.append(Mistake(key, given, remedy, source_of(key, origins)))

    evaluation = config.evaluation
    asked = [
        f"evaluation.{name}"
        for name, on in (
            ("at_start", evaluation.at_start),
            ("at_end", evaluation.at_end),
            ("every", evaluation.every > 0),
            ("teacher", evaluation.teacher),
        )
        if on
    ]
    if asked and not evaluation.splits:
        remedy = f"evaluation is asked for (by {', '.join(asked)}), so name at least one split"
        refuse("evaluation.splits", evaluation.splits, remedy)
    for key, values in (("splits", evaluation.splits), ("seeds", evaluation.seeds)):
        if len(set(values)) < len(values):
            refuse(f"evaluation.{key}", values, "names something twice; remove the repetition")

    longest = config.rollout.generation.prompt_limit + config.rollout.generation.response_limit
    if config.learner.token_budget < longest:
        refuse(
            "learner.token_budget",
            config.learner.token_budget,
            f"one sequence may have {longest} tokens (rollout.generation.prompt_limit + response_limit), "
            f"and a micro-batch must hold at least one; must be at least {longest}",
        )
    plain = {"temperature": 1.0, "top_p": 1.0, "top_k": 0}
    for key, value in plain.items():
        given = getattr(config.rollout.generation, key)
        if given != value:
            refuse(
                f"rollout.generation.{key}",
                given,
                "the learner and the teacher score the model's own distribution, so training responses must "
                f"be sampled from it: must be {value:g}",
            )
    own = kind_of(config.environment).sources.ways
    ways = [BEST, *own, *(way for kind in built_in_kinds().values() for way in kind.sources.ways)]
    if config.references.source not in ways:
        remedy = f"must be one of {names(dict.fromkeys(ways))}"
        refuse("references.source", config.references.source, remedy)
    if config.rollout.overlap and config.learner.max_version_lag == 0:
        refuse(
            "learner.max_version_lag",
            0,
            "with rollout.overlap = true, what is collected during an update is one version old when it is "
            "used; must be at least 1, or set rollout.overlap = false",
        )
    return mistakes


def method_mistakes(values: Mapping[str, object], origins: Mapping[str, str]) -> list[Mistake]:
    """An unknown method. Looks at the unvalidated tables, so that it is reported beside all other mistakes."""
    from actfirst.methods.table import METHODS  # late: it loads all ways of acting

    rollout = values.get("rollout")
    method = rollout.get("method", NOT_GIVEN) if isinstance(rollout, Mapping) else NOT_GIVEN
    if not isinstance(method, str) or method in METHODS:
        return []
    close = difflib.get_close_matches(method, METHODS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    key = "rollout.method"
    return [Mistake(key, method, f"{hint}must be one of {names(METHODS)}", source_of(key, origins))]
