"""The rules and templates of the paper's benchmarks, by name."""

from __future__ import annotations

from actfirst.environments.registry import built_in_kinds
from actfirst.policy.render import read_templates

_OTHERS = ("pocket", "gymnasium", "openenv", "verifiers")
_BENCHMARKS = {name: kind for name, kind in built_in_kinds().items() if name not in _OTHERS}
RULES = {name: kind.rules for name, kind in _BENCHMARKS.items()}
TEMPLATE_SETS = {name: read_templates(kind.prompts) for name, kind in _BENCHMARKS.items()}
GROWING_SETS = {name: read_templates(kind.prompts, "growing") for name, kind in _BENCHMARKS.items()}
