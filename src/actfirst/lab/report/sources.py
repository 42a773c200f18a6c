"""What a report is made from: finished runs and stored results, found under the paths that somebody names.

Runs are put into settings (an environment with a student and its teacher, a row of the paper's tables) and, inside one,
into methods. Runs of one method that differ in anything but their seed stand in groups of their own.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from actfirst.errors import ConfigError, RunFolderError
from actfirst.lab import stored
from actfirst.lab.curves import EVALUATIONS
from actfirst.lab.results import (
    EvaluationResult,
    QualityResult,
    read_evaluation,
    read_quality,
)
from actfirst.lab.rollout.result import RolloutResult, read_rollout
from actfirst.methods.table import METHODS
from actfirst.runs.run_folder import CONFIG, SUMMARY
from actfirst.runs.run_record import RunRecord, read_run

VANILLA, OURS = "vanilla", "actfirst"
# Sections that do not change what a method is.
_VOLATILE = ("run.seed", "rollout.method", "checkpoint.", "evaluation.", "tracking.", "pool.")


@dataclass(frozen=True)
class MethodGroup:
    """The runs of one method under equal settings, one per training seed."""

    label: str
    method: str
    runs: tuple[RunRecord, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(run.folder for run in self.runs)

    def by_seed(self) -> dict[int, RunRecord]:
        return {run.seed: run for run in self.runs}


@dataclass(frozen=True)
class NamedEvaluation:
    """An evaluation that no run made: the zero-shot student, the teacher, or any other checkpoint."""

    label: str
    path: Path
    result: EvaluationResult


@dataclass(frozen=True)
class Setting:
    """One environment with one student and its teacher."""

    label: str
    groups: tuple[MethodGroup, ...]
    others: tuple[NamedEvaluation, ...]

    def group(self, method: str) -> MethodGroup | None:
        """The first group of a method; variants follow it."""
        return next((group for group in self.groups if group.method == method), None)


@dataclass(frozen=True)
class Sources:
    """Everything that was found."""

    settings: tuple[Setting, ...]
    rollouts: tuple[tuple[Path, RolloutResult], ...]
    qualities: tuple[tuple[Path, QualityResult], ...]
    unfinished: tuple[Path, ...]
    machines: tuple[str, ...]


def find_sources(paths: Sequence[Path]) -> Sources:
    """Runs and results at and below `paths`; raises ConfigError if there is nothing to report on."""
    runs, unfinished, results = _walk(paths)
    loaded = [(read_run(folder), _read_config(folder)) for folder in runs]
    read = [found for path in results if (found := stored.read_stored(path)) is not None]
    evaluations = [
        (found.path, read_evaluation(found.path), str(found.data.get("who", "")))
        for found in read
        if found.kind == stored.EVALUATION
    ]
    sources = Sources(
        settings=_settings(loaded, evaluations),
        rollouts=tuple((f.path, read_rollout(f.path)) for f in read if f.kind == stored.BENCH_ROLLOUT),
        qualities=tuple((f.path, read_quality(f.path)) for f in read if f.kind == stored.BENCH_QUALITY),
        unfinished=tuple(unfinished),
        machines=_machines(read),
    )
    if not (sources.settings or sources.rollouts or sources.qualities):
        named = ", ".join(map(str, paths))
        raise ConfigError(f"nothing to report on: {named} holds neither a finished run nor a stored result")
    return sources


def _walk(paths: Sequence[Path]) -> tuple[list[Path], list[Path], list[Path]]:
    """Finished runs, unfinished ones and files of results. Inside a run folder nothing else is looked for."""
    runs: dict[Path, Path] = {}
    unfinished: dict[Path, Path] = {}
    results: dict[Path, Path] = {}

    def visit(path: Path) -> None:
        if path.is_file():
            if path.suffix == ".json":
                results[path.resolve()] = path
        elif (path / CONFIG).is_file():
            (runs if (path / SUMMARY).is_file() else unfinished)[path.resolve()] = path
        elif path.is_dir():
            for entry in sorted(path.iterdir()):
                visit(entry)
        else:
            raise ConfigError(
                f"{path} does not exist; name run folders, result files, or a folder that holds them"
            )

    for path in paths:
        visit(path)
    return list(runs.values()), list(unfinished.values()), list(results.values())


@dataclass(frozen=True)
class _RunConfig:
    """What a report has to know of a run's configuration, which another version may have written."""

    environment: str
    student: str
    teacher: str
    method: str
    leaves: dict[str, object]

    @property
    def identity(self) -> dict[str, object]:
        """What makes a method what it is: every setting but seeds, and where and when things are kept."""
        return {key: value for key, value in self.leaves.items() if not key.startswith(_VOLATILE)}

    @property
    def setting(self) -> str:
        kept = ("environment.", "models.")
        return json.dumps(
            {k: v for k, v in self.leaves.items() if k.startswith(kept)}, sort_keys=True, default=str
        )

    @property
    def label(self) -> str:
        return f"{self.environment}: {Path(self.student).name} from {Path(self.teacher).name}"


def _read_config(folder: Path) -> _RunConfig:
    path = folder / CONFIG
    try:
        leaves = _leaves(tomllib.loads(path.read_text(encoding="utf-8")))
        names = [
            leaves[key] for key in ("environment.name", "models.student", "models.teacher", "rollout.method")
        ]
    except (OSError, ValueError, KeyError) as error:
        raise RunFolderError(f"{path} is not the whole configuration of a run: {error}") from error
    environment, student, teacher, method = map(str, names)
    return _RunConfig(environment, student, teacher, method, leaves)


def _leaves(values: dict[str, object], prefix: str = "") -> dict[str, object]:
    found: dict[str, object] = {}
    for name, value in values.items():
        found |= _leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value}
    return found


def _settings(
    loaded: Sequence[tuple[RunRecord, _RunConfig]], evaluations: Sequence[tuple[Path, EvaluationResult, str]]
) -> tuple[Setting, ...]:
    by_key: dict[str, list[tuple[RunRecord, _RunConfig]]] = {}
    for record, config in loaded:
        by_key.setdefault(config.setting, []).append((record, config))
    settings = []
    for members in by_key.values():
        config = members[0][1]
        others = tuple(
            NamedEvaluation(_evaluation_label(result, config), path, result)
            for path, result, who in evaluations
            if result.environment in ("", config.environment)
            and EVALUATIONS not in path.parts
            # the student and the teacher of another setting are none of this one's
            and (not who or result.checkpoint in (config.student, config.teacher))
        )
        settings.append(Setting(config.label, _groups(members), others))
    return tuple(settings)


def _groups(members: Sequence[tuple[RunRecord, _RunConfig]]) -> tuple[MethodGroup, ...]:
    """Groups in the order of the table of methods; variants of one method are told apart by what differs.

    The variant whose settings most other methods share comes first, and is named by its method alone.
    """
    variants: dict[str, dict[str, list[RunRecord]]] = {}
    leaves: dict[str, dict[str, object]] = {}
    shared: dict[str, set[str]] = {}
    for record, config in members:
        key = json.dumps(config.identity, sort_keys=True, default=str)
        leaves[key] = config.identity
        shared.setdefault(key, set()).add(config.method)
        variants.setdefault(config.method, {}).setdefault(key, []).append(record)
    groups = []
    for method in METHODS:
        keys = sorted(variants.get(method, {}), key=lambda one: -len(shared[one]))
        differing = {
            name for one in keys for name in leaves[one] if leaves[one][name] != leaves[keys[0]].get(name)
        }
        for key in keys:
            runs = sorted(variants[method][key], key=lambda run: run.seed)
            label = METHODS[method].title
            usual = key == keys[0] and len(shared[key]) > 1
            if differing and not usual:
                label += f" ({', '.join(_said(name, leaves[key].get(name)) for name in sorted(differing))})"
            _refuse_twins(label, runs)
            groups.append(MethodGroup(label, method, tuple(runs)))
    return tuple(groups)


def _said(name: str, value: object) -> str:
    short = name.rpartition(".")[2]
    if name == "rollout.responses":
        return f"{value} responses"
    return f"{short}={str(value).lower() if isinstance(value, bool) else value}"


def _refuse_twins(label: str, runs: Sequence[RunRecord]) -> None:
    seeds = [run.seed for run in runs]
    for place, seed in enumerate(seeds):
        if seed in seeds[:place]:
            one, other = (run.folder for run in runs if run.seed == seed)
            raise ConfigError(f"{one} and {other} are both {label} with seed {seed}; give one of them")


def _evaluation_label(result: EvaluationResult, config: _RunConfig) -> str:
    """Zero-shot student and teacher are those of the setting, by the paper's protocol; all else says what it is."""
    name = Path(result.checkpoint).name or result.checkpoint
    if result.act != "think":
        return f"{name}, acting {result.act}"
    if result.checkpoint == config.student:
        return f"Zero-shot student ({name})"
    return f"Teacher ({name})" if result.checkpoint == config.teacher else name


def _machines(results: Sequence[stored.StoredResult]) -> tuple[str, ...]:
    lines = []
    for found in results:
        facts = found.data.get("machine")
        if isinstance(facts, dict):
            parts = [f"{key.replace('_', ' ')}: {value}" for key, value in facts.items()]
            lines.append(f"actfirst {found.data.get('actfirst', '')}; {'; '.join(parts)}")
    return tuple(dict.fromkeys(lines))
