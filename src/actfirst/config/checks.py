"""Rules that span several sections of a configuration, and the names that only other packages know.

Rules inside one section stand with the section.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping

from pydantic import ValidationError

from actfirst.config.config import Config
from actfirst.config.method_sections import MethodsSection, key_of
from actfirst.config.mistakes import Mistake, from_validation, source_of
from actfirst.config.schema import names, suggest
from actfirst.environments.registry import built_in_kinds, kind_of
from actfirst.references.rollouts import ROLLOUTS
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

    if evaluation.engines > 1 and config.runtime.kind == "local":
        remedy = 'needs several processes; set runtime.kind = "ray", or evaluation.engines = 1'
        refuse("evaluation.engines", evaluation.engines, remedy)

    if config.learner.adapter_sync == "alone" and config.learner.adapter_rank and not config.adapters_alone:
        remedy = 'only vLLM takes adapters alone, of a rank of at most 512; set "auto", or engine.kind = "vllm"'
        refuse("learner.adapter_sync", "alone", remedy)

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
    ways = [BEST, ROLLOUTS, *own, *(way for kind in built_in_kinds().values() for way in kind.sources.ways)]
    if config.references.source not in ways:
        remedy = f"must be one of {names(dict.fromkeys(ways))}"
        refuse("references.source", config.references.source, remedy)
    if config.references.source == ROLLOUTS and config.runtime.rollout_drivers:
        remedy = "rollouts are references of the run's own process alone; set runtime.rollout_drivers = 0"
        refuse("references.source", ROLLOUTS, remedy)
    if config.rollout.overlap and config.learner.max_version_lag == 0:
        refuse(
            "learner.max_version_lag",
            0,
            "with rollout.overlap = true, what is collected during an update is one version old when it is "
            "used; must be at least 1, or set rollout.overlap = false",
        )
    from actfirst.methods.table import METHODS, method_of, needs_teacher  # late: it loads all ways of acting

    if config.rollout.method not in METHODS:
        return mistakes  # that has been said already
    method = method_of(config.rollout.method, config.methods)
    if method.objective.compares and config.rollout.group_size < 2:
        refuse(
            "rollout.group_size",
            config.rollout.group_size,
            f"{config.rollout.method} compares rollouts of one task, and a group of one has nothing to be compared "
            "with; must be at least 2 (its authors use 8)",
        )
    if not config.models.teacher and needs_teacher(config):
        refuse(
            "models.teacher",
            config.models.teacher,
            "the method, learner.kl_weight or evaluation.teacher asks a teacher; name its checkpoint folder "
            "(for learner.kl_weight: the checkpoint that the student starts from)",
        )
    return mistakes


def method_mistakes(tables: Mapping[str, object], origins: Mapping[str, str]) -> list[Mistake]:
    """An unknown method. Looks at the unvalidated tables, so that it is reported beside all other mistakes."""
    from actfirst.methods.table import METHODS  # late: it loads all ways of acting

    method = _method(tables)
    if method is None or method in METHODS:
        return []
    close = difflib.get_close_matches(method, METHODS, n=1)
    hint = f"did you mean {close[0]}? " if close else ""
    key = "rollout.method"
    return [Mistake(key, method, f"{hint}must be one of {names(METHODS)}", source_of(key, origins))]


def method_constants(tables: Mapping[str, object], origins: Mapping[str, str]) -> tuple[object, list[Mistake]]:
    """The table `methods`, with the constants of methods of other packages as the sections that these bring.

    A package is loaded only if the recipe names its method, as the run's own or by one of its constants.
    """
    from actfirst.methods.table import METHODS, Method, row_of

    given = tables.get("methods", {})
    if not isinstance(given, Mapping):
        return given, []
    methods = {key_of(name): name for name in METHODS}
    own = key_of(_method(tables) or "")
    found = {name: values for name, values in given.items() if name in MethodsSection.model_fields}
    asked = [*given, own] if own in methods else [*given]
    mistakes: list[Mistake] = []
    for name in (name for name in dict.fromkeys(asked) if name not in MethodsSection.model_fields):
        key, values = f"methods.{name}", given.get(name, {})
        if name not in methods:
            remedy = f"there is no such key; {suggest(key, MethodsSection)}"
            mistakes.append(Mistake(key, values, remedy, source_of(key, origins)))
        elif not isinstance(row := row_of(methods[name]), Method):
            try:
                found[name] = row.constants.model_validate(values)
            except ValidationError as error:
                mistakes += from_validation(error, values, origins, row.constants, key)
        elif name in given:
            remedy = f"the method {methods[name]} has no constants; leave it out"
            mistakes.append(Mistake(key, values, remedy, source_of(key, origins)))
    return found, mistakes


def _method(tables: Mapping[str, object]) -> str | None:
    rollout = tables.get("rollout")
    method = rollout.get("method") if isinstance(rollout, Mapping) else None
    return method if isinstance(method, str) else None
