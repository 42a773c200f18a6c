"""What `actfirst references` prints: coverage, verification, and one reference as a text."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from actfirst.cli.console import print_note, print_table
from actfirst.terminal.visible import say

if TYPE_CHECKING:
    from actfirst.references.build.coverage import Coverage, Group
    from actfirst.references.build.verify import Share, Verification
    from actfirst.references.store import Attempt


def print_coverage(file: Path, found: Coverage) -> None:
    all_ = found.overall
    say(
        f"{file}: {all_.covered} of {found.tasks} tasks have a reference ({all_.attempted} attempted), "
        f"{all_.successful} successful, mean score {all_.mean_score:.1f}, "
        f"{all_.within_limit} within {found.turn_limit} turns, {all_.unreliable} unreliable"
    )
    if found.lengths:
        lengths = found.lengths
        say(
            f"actions: {lengths.least} to {lengths.most}, mean {lengths.mean:.1f}, median {lengths.median:g}, "
            f"nine in ten at most {lengths.ninth_decile}"
        )
        say("lengths: " + ", ".join(f"{span}: {count}" for span, count in found.histogram.items()))
    if found.sources:
        say("sources: " + ", ".join(f"{name} {count}" for name, count in found.sources.items()))
    for reason, count in found.reasons.items():
        say(f"without: {count} x {reason}")
    longer = {kind: group.over_limit for kind, group in found.by_kind.items()}
    lower = {kind: group.below_full_score for kind, group in found.by_kind.items()}
    _print_kinds(f"more than {found.turn_limit} actions", all_.over_limit, longer)
    _print_kinds("below full score", all_.below_full_score, lower)
    columns = ("kind", "attempted", "covered", "successful", "in limit", "unreliable", "score", "actions")
    print_table(columns, [_group_row(kind, group) for kind, group in {**found.by_kind, "all": all_}.items()])


def _print_kinds(what: str, count: int, by_kind: dict[str, int]) -> None:
    """A count and the kinds that it comes from; nothing where there is nothing to tell."""
    if count:
        say(f"{what}: {count} ({', '.join(f'{kind} {n}' for kind, n in by_kind.items() if n)})")


def _group_row(kind: str, group: Group) -> list[str]:
    counts = (group.attempted, group.covered, group.successful, group.within_limit, group.unreliable)
    return [kind, *map(str, counts), f"{group.mean_score:.1f}", f"{group.mean_actions:.1f}"]


def print_verification(found: Verification) -> None:
    all_ = found.overall
    say(
        f"{all_.aligned} of {all_.counted} tasks that count pass every check on every turn; of {all_.tasks} tasks, "
        f"{all_.without} have no reference and {all_.unreliable} an unreliable one"
    )
    columns = (
        "kind", "tasks", "counted", "aligned", "percent", "without", "unreliable", "of these aligned",
        "first failures",
    )  # fmt: skip
    rows = {**found.by_kind, "all": all_}
    print_table(columns, [_share_row(kind, share) for kind, share in rows.items()])
    for failure in found.failures:
        print_note(f"turn {failure.turn} of {failure.task_id}: {failure.reason}")


def _share_row(kind: str, share: Share) -> list[str]:
    counts = (share.tasks, share.counted, share.aligned)
    percent = f"{share.percent:.2f}" if share.counted else "-"
    others = (share.without, share.unreliable, share.unreliable_aligned)
    said = ", ".join(f"{count} x {reason}" for reason, count in share.reasons.items())
    return [kind, *map(str, counts), percent, *map(str, others), said]


def print_attempt(attempt: Attempt) -> None:
    reference = attempt.reference
    say(f"{attempt.task_id} ({attempt.kind}), {attempt.candidates} candidates of {', '.join(attempt.tried)}")
    if reference is None:
        say(f"no reference: {attempt.reason}")
        return
    kept = "" if reference.reliable else f"; unreliable: {attempt.agreed} of {attempt.replays} replays agree"
    cut = f", {attempt.cut} more were cut" if attempt.cut else ""
    say(f"{len(reference.steps)} actions by {reference.source}{cut}, score {reference.score:g}{kept}\n")
    say(reference.initial.text)
    for number, step in enumerate(reference.steps, start=1):
        say(f"\n{number}> {step.action}\n{step.observation.text}")
