"""What a report is made from: finished runs and stored results, found under the paths that somebody names.

Runs are put into settings (an environment with a student and its teacher, a row of the paper's tables) and, inside one,
into methods. Runs of one method that differ in anything but their seed stand in groups of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from actfirst.config.config import Config
from actfirst.errors import ConfigError, RunFolderError
from actfirst.lab import stored
from actfirst.lab.compare import MethodRuns
from actfirst.lab.results import QualityResult
from actfirst.lab.rollout.result import RolloutResult
from actfirst.methods.table import METHODS
from actfirst.runs.evaluations import StoredEvaluation
from actfirst.runs.preparation import PREPARATION, Preparation
from actfirst.runs.record import parse, read_object
from actfirst.runs.run import EVALUATIONS, Run, open_run
from actfirst.runs.run_folder import CONFIG

VANILLA, OURS = "vanilla", "actfirst"
ZERO_SHOT = "Zero-shot student"
# What a report has to know of a run's configuration, which another version may have written.
_NAMES = ("environment.name", "models.student", "models.teacher", "rollout.method")
# Settings that do not change what a method is: seeds, and where and when things are kept.
_VOLATILE = ("run.seed", "rollout.method", "checkpoint.", "evaluation.", "tracking.", "pool.")


@dataclass(frozen=True)
class NamedEvaluation:
    """An evaluation that no run made: the zero-shot student, the teacher, or any other checkpoint."""

    label: str
    path: Path
    result: StoredEvaluation


@dataclass(frozen=True)
class Setting:
    """One environment with one student and its teacher."""

    label: str
    groups: tuple[MethodRuns, ...]
    others: tuple[NamedEvaluation, ...]

    def group(self, method: str) -> MethodRuns | None:
        """The first group of a method; variants follow it."""
        return next((group for group in self.groups if group.spec == method), None)


@dataclass(frozen=True)
class Sources:
    """Everything that was found."""

    settings: tuple[Setting, ...]
    rollouts: tuple[tuple[Path, RolloutResult], ...]
    qualities: tuple[tuple[Path, QualityResult], ...]
    preparations: tuple[tuple[Path, Preparation], ...]
    unfinished: tuple[Path, ...]
    machines: tuple[str, ...]


def find_sources(paths: Sequence[Path]) -> Sources:
    """Runs and results at and below `paths`; raises ConfigError if there is nothing to report on."""
    runs, files = _walk(paths)
    read = {path: read_object(path) for path in files}

    def of_kind(kind: str) -> list[tuple[Path, dict[str, Any]]]:
        return [(path, data) for path, data in read.items() if data.get("kind") == kind]

    evaluations = [
        (path, parse(data, StoredEvaluation, str(path)))
        for path, data in of_kind(stored.EVALUATION)
        if EVALUATIONS not in path.parts
    ]
    sources = Sources(
        settings=_settings([run for run in runs if run.finished], evaluations),
        rollouts=tuple((p, parse(d, RolloutResult, str(p))) for p, d in of_kind(stored.BENCH_ROLLOUT)),
        qualities=tuple((p, parse(d, QualityResult, str(p))) for p, d in of_kind(stored.BENCH_QUALITY)),
        preparations=tuple((p, parse(d, Preparation, str(p))) for p, d in of_kind(PREPARATION)),
        unfinished=tuple(run.folder for run in runs if not run.finished),
        machines=stored.machines(
            [data for data in (*read.values(), *_own_evaluations(runs)) if data.get("kind") in stored.KINDS]
        ),
    )
    if not (sources.settings or sources.rollouts or sources.qualities or sources.preparations):
        named = ", ".join(map(str, paths))
        raise ConfigError(f"nothing to report on: {named} holds neither a finished run nor a stored result")
    return sources


def _own_evaluations(runs: Sequence[Run]) -> Iterator[dict[str, Any]]:
    """What a lab has stored in run folders: it says on which machine."""
    for run in runs:
        for path in sorted((run.folder / EVALUATIONS).glob("update-*.json")):
            yield read_object(path)


def _walk(paths: Sequence[Path]) -> tuple[list[Run], list[Path]]:
    """Runs and files of results, each once. Inside a run folder nothing else is looked for."""
    runs: dict[Path, Run] = {}
    results: dict[Path, Path] = {}

    def visit(path: Path) -> None:
        if path.is_file():
            if path.suffix == ".json":
                results[path.resolve()] = path
        elif (path / CONFIG).is_file():
            runs[path.resolve()] = open_run(path)
        elif path.is_dir():
            for entry in sorted(path.iterdir()):
                visit(entry)
        else:
            raise ConfigError(
                f"{path} does not exist; name run folders, result files, or a folder that holds them"
            )

    for path in paths:
        visit(path)
    return list(runs.values()), list(results.values())


def _leaves(values: Mapping[str, object], prefix: str = "") -> dict[str, object]:
    """A configuration as dotted keys."""
    found: dict[str, object] = {}
    for name, value in values.items():
        found |= _leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def _defaults() -> dict[str, object]:
    """What keys mean to a run that a version without them wrote."""
    sections = {name: field.default for name, field in Config.model_fields.items() if not field.is_required()}
    return _leaves({name: section.model_dump(mode="json") for name, section in sections.items()})


def _settings(runs: Sequence[Run], evaluations: Sequence[tuple[Path, StoredEvaluation]]) -> tuple[Setting, ...]:
    by_key: dict[str, dict[Run, dict[str, object]]] = {}
    defaults = _defaults()
    for run in runs:
        leaves = defaults | _leaves(run.config)
        if missing := [key for key in _NAMES if key not in leaves]:
            raise RunFolderError(
                f"{run.folder / CONFIG} is not the whole configuration of a run: {missing[0]!r}"
            )
        key = _key(
            {name: value for name, value in leaves.items() if name.startswith(("environment.", "models."))}
        )
        by_key.setdefault(key, {})[run] = leaves
    settings = []
    for members in by_key.values():
        environment, student, teacher, _ = (str(next(iter(members.values()))[key]) for key in _NAMES)
        others = tuple(
            NamedEvaluation(_evaluation_label(result, student, teacher), path, result)
            for path, result in evaluations
            if result.environment in ("", environment)
            # the student and the teacher of another setting are none of this one's
            and (not result.who or result.checkpoint in (student, teacher))
        )
        label = f"{environment}: {Path(student).name} from {Path(teacher).name}"
        settings.append(Setting(label, _groups(members), others))
    return tuple(settings)


def _groups(members: Mapping[Run, Mapping[str, object]]) -> tuple[MethodRuns, ...]:
    """Groups in the order of the table of methods; variants of one method are told apart by what differs.

    The variant whose settings most other methods share comes first, and is named by its method alone.
    """
    variants: dict[str, dict[str, list[Run]]] = {}
    identities: dict[str, dict[str, object]] = {}
    shared: dict[str, set[str]] = {}
    for run, leaves in members.items():
        method = str(leaves["rollout.method"])
        identity = {name: value for name, value in leaves.items() if not name.startswith(_VOLATILE)}
        key = _key(identity)
        identities[key] = identity
        shared.setdefault(key, set()).add(method)
        variants.setdefault(method, {}).setdefault(key, []).append(run)
    groups = []
    for method in METHODS:
        keys = sorted(variants.get(method, {}), key=lambda one: -len(shared[one]))
        differing = {
            name
            for key in keys
            for name, value in identities[key].items()
            if value != identities[keys[0]].get(name)
        }
        for key in keys:
            label = METHODS[method].title
            usual = key == keys[0] and len(shared[key]) > 1
            if differing and not usual:
                label += f" ({', '.join(_said(name, identities[key].get(name)) for name in sorted(differing))})"
            runs = sorted(variants[method][key], key=lambda run: run.seed)
            for one, other in pairwise(runs):
                if one.seed == other.seed:
                    raise ConfigError(
                        f"{one.folder} and {other.folder} are both {label} with seed {one.seed}; give one of them"
                    )
            groups.append(MethodRuns(label, method, tuple(runs)))
    return tuple(groups)


def _key(values: Mapping[str, object]) -> str:
    return json.dumps(values, sort_keys=True, default=str)


def _said(name: str, value: object) -> str:
    if name == "rollout.responses":
        return f"{value} responses"
    return f"{name.rpartition('.')[2]}={str(value).lower() if isinstance(value, bool) else value}"


def _evaluation_label(result: StoredEvaluation, student: str, teacher: str) -> str:
    """Zero-shot student and teacher are those of the setting, by the paper's protocol; all else says what it is."""
    name = Path(result.checkpoint).name or result.checkpoint
    if result.act != "think":
        return f"{name}, acting {result.act}"
    if result.checkpoint == student:
        return f"{ZERO_SHOT} ({name})"
    return f"Teacher ({name})" if result.checkpoint == teacher else name
