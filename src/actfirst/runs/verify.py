"""Is a run folder as it was written? What can be told from files alone; `training/verify.py` asks for more.

look     fast: names and sizes of checkpoints, checksums of lines, lines that a checkpoint saw and that are gone
recount  every response accounted for: the ledger of every update counted again from sample ids and batches
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from actfirst.errors import ActfirstError, CheckpointError, RunFolderError
from actfirst.runs.chain import follow, whole_lines
from actfirst.runs.lines import BatchLine, LedgerCounts, TrainerState, UpdateLine
from actfirst.runs.manifest import check_names, steps
from actfirst.runs.record import parse, read_object
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import CHECKPOINTS, EPISODES, METRICS, START, SUMMARY, UTILISATION, saved_config


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as it was written, and where."""

    place: str
    fault: str

    def __str__(self) -> str:
        return f"{self.place}: {self.fault}"


def look(folder: Path) -> list[Finding]:
    """What is wrong with a run folder, without reading the contents of its checkpoints."""
    saved_config(folder)
    found, seen = [], dict[str, int]()
    for path in reversed(steps(folder / CHECKPOINTS)):
        try:
            check_names(path)
            seen |= _offsets(path)
        except ActfirstError as error:
            found.append(Finding(f"{CHECKPOINTS}/{path.name}", str(error)))
    for name in dict.fromkeys((*START, *seen, UTILISATION)):
        if fault := _line_fault(folder / name, seen.get(name, 0)):
            found.append(Finding(name, fault))
    return found


def _offsets(checkpoint: Path) -> dict[str, int]:
    """How much of each line file a checkpoint saw."""
    state = checkpoint / "training" / "state.json"
    if not state.is_file():
        return {}
    try:
        return parse(read_object(state).get("trainer") or {}, TrainerState, str(state)).offsets
    except RunFolderError as error:
        raise CheckpointError(str(error)) from error


def _line_fault(path: Path, seen: int) -> str:
    if seen and not path.exists():
        return f"is missing, though a checkpoint saw {seen} bytes of it"
    whole, fault = follow(whole_lines(path))
    if fault is not None:
        return str(fault)
    return f"has {whole} bytes of whole lines, though a checkpoint saw {seen}" if whole < seen else ""


def recount(folder: Path) -> list[Finding]:
    """Where the ledger, the updates, the batches and the episodes of a run contradict each other."""
    try:
        return [*_ledger_faults(folder), *_episode_faults(folder)]
    except RunFolderError as error:
        return [Finding(METRICS, str(error))]


def trained_ids(folder: Path) -> list[str]:
    """The samples that a run trained on, in order."""
    return [sample for update in open_run(folder).updates for sample in update.sample_ids]


def _ledger_faults(folder: Path) -> Iterator[Finding]:
    trained = Counter[str]()
    generated, expected = 0, 1
    for line in open_run(folder).lines:
        if isinstance(line, BatchLine):
            generated += line.full_responses
        elif isinstance(line, UpdateLine):
            where = f"{METRICS}, update {line.update}"
            if line.update != expected:
                yield Finding(where, f"follows update {expected - 1}")
            expected = line.update + 1
            trained.update(line.sample_ids)
            yield from (Finding(where, fault) for fault in _unbalanced(line.ledger, trained.total(), generated))
    for sample, times in trained.items():
        if times > 1:
            yield Finding(METRICS, f"sample {sample} was trained on {times} times")
    if (folder / SUMMARY).is_file():
        counted = open_run(folder).summary.ledger.trained
        if counted != trained.total():
            yield Finding(SUMMARY, f"counts {counted} trained samples, the updates name {trained.total()}")


def _unbalanced(ledger: LedgerCounts, trained: int, generated: int) -> Iterator[str]:
    accounted = ledger.trained + sum(ledger.discarded.values()) + ledger.buffered
    if ledger.generated != accounted:
        yield f"the ledger says {ledger.generated} responses were generated and accounts for {accounted}"
    if ledger.trained != trained:
        yield f"the ledger says {ledger.trained} samples were trained on, the updates so far name {trained}"
    if ledger.generated != generated:
        yield f"the ledger says {ledger.generated} responses were generated, the batches so far {generated}"


def _episode_faults(folder: Path) -> Iterator[Finding]:
    run = open_run(folder)
    ids, batches = Counter[str](), Counter[int]()
    for episode in run.raw_episodes():
        ids[str(episode.get("id"))] += 1
        if isinstance(batch := episode.get("batch"), int):
            batches[batch] += 1
    for line in run.batches:
        if batches[line.batch] != line.episodes:
            yield Finding(
                EPISODES, f"batch {line.batch} had {line.episodes} episodes, {batches[line.batch]} are there"
            )
    for name, times in ids.items():
        if times > 1:
            yield Finding(EPISODES, f"episode {name} is there {times} times")
    strangers = {sample for sample in trained_ids(folder) if sample.rpartition("-t")[0] not in ids}
    if strangers:
        yield Finding(METRICS, f"{len(strangers)} trained samples are of no episode, as {min(strangers)}")
