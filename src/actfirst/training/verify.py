"""Is everything that a run, a build or a checkpoint left as it was written? All that `actfirst verify` asks.

The fast form, which needs no more than files and no torch, is `runs/verify.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.environments.registry import kind_of, open_world
from actfirst.errors import ActfirstError, ConfigError
from actfirst.learning.checkpoint import load
from actfirst.references.build.verify import verify_store
from actfirst.references.store import ReferenceStore
from actfirst.runs.manifest import MANIFEST, step_of, steps
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import CHECKPOINTS, CONFIG, METRICS, saved_config
from actfirst.runs.verify import Finding, look, recount
from actfirst.training.stored_state import StoredState


@dataclass(frozen=True, slots=True)
class Verified:
    """What a thing is, what of it was looked at (how many of each), and what is wrong."""

    what: str
    checked: dict[str, int]
    findings: list[Finding]


def verify(path: Path, recipe: Config | None = None) -> Verified:
    """Verify a run folder, a checkpoint or a reference store; with a recipe, references are replayed too."""
    if (path / CONFIG).is_file():
        return verify_run(path)
    if step_of(path) is not None or (path / MANIFEST).is_file():
        return Verified("checkpoint", {"checkpoints": 1}, _checkpoint_faults(path, path.name))
    if path.is_file():
        return verify_references(path, recipe)
    raise ConfigError(
        f"{path} is no run folder ({CONFIG}), no checkpoint ({MANIFEST}) and no reference file; name one of these"
    )


def verify_run(folder: Path) -> Verified:
    """All of a run: its checkpoints with what is buffered in them, its lines, its ledger, its reference store."""
    findings, run = look(folder), open_run(folder)
    known = {finding.place for finding in findings}
    checkpoints = steps(folder / CHECKPOINTS)
    for path in checkpoints:
        if (place := f"{CHECKPOINTS}/{path.name}") not in known:
            findings += _checkpoint_faults(path, place, None if METRICS in known else folder)
    findings += recount(folder)
    checked = {
        "checkpoints": len(checkpoints),
        "updates": len(run.updates) if not known else 0,
        "samples": sum(len(line.sample_ids) for line in run.updates) if not known else 0,
    }
    try:
        if store := resolve(saved_config(folder)).references.path:
            checked["references"] = len(ReferenceStore.read(Path(store).expanduser()))
    except ActfirstError as error:
        findings.append(Finding(CONFIG, str(error)))
    return Verified("run", checked, findings)


def _checkpoint_faults(path: Path, place: str, run: Path | None = None) -> list[Finding]:
    """Contents against the manifest; buffered samples against the ledger and against those trained before."""
    try:
        stored = load(path)
        state = StoredState.of(stored.trainer_state, stored.samples, place)
    except ActfirstError as error:
        return [Finding(place, str(error))]
    ids = [sample.id for sample in state.samples]
    if run is not None:
        ids += [one for line in open_run(run).updates if line.update <= stored.step for one in line.sample_ids]
    twice = len(ids) - len(set(ids))
    return (
        [Finding(place, f"{twice} buffered samples were trained on before, or are there twice")]
        if twice
        else []
    )


def verify_references(path: Path, recipe: Config | None) -> Verified:
    """A store's lines and its end; with a recipe, every reference is followed in a fresh environment."""
    try:
        store = ReferenceStore.read(path)
        checked = {
            "attempts": store.attempt_lines,
            "references": sum(1 for one in store.attempts() if one.reference),
        }
        findings = (
            [] if store.ended else [Finding(path.name, "has no end: a build was killed, or lines were lost")]
        )
        if recipe is not None:
            opener = partial(open_world, recipe.environment)
            configuration = recipe.environment.model_dump(mode="json")
            world = opener()
            tasks = [task for split in world.splits() for task in world.tasks(split) if store.covers(task)]
            result = verify_store(kind_of(recipe.environment), opener, path, tasks, configuration)
            checked["replayed"] = result.overall.tasks
            findings += [
                Finding(
                    path.name,
                    f"the reference of {one.task_id} does not replay: {one.reason} at turn {one.turn}",
                )
                for one in result.failures
            ]
    except ActfirstError as error:
        return Verified("references", {}, [Finding(path.name, str(error))])
    return Verified("references", checked, findings)
