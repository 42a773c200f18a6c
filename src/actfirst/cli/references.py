"""`actfirst references`: build, verify and look at offline reference trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import check_result_file, print_note, write_result
from actfirst.cli.effort import Effort, print_effort
from actfirst.cli.progress import progress
from actfirst.cli.reference_rollouts import play_teacher
from actfirst.cli.reference_tables import print_attempt, print_coverage, print_verification
from actfirst.terminal.visible import say

if TYPE_CHECKING:
    from actfirst.config.config import Config
    from actfirst.environments.base import World
    from actfirst.environments.solving import Care
    from actfirst.records import Task
    from actfirst.references.sources import Imported
    from actfirst.references.store import Attempt

app = typer.Typer(help="Build, verify and show offline reference trajectories.", no_args_is_help=True)

Recipe = Annotated[str, typer.Argument(help="A recipe's name or a .toml file: which world.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings that replace the recipe's.")
]
Split = Annotated[str, typer.Option(help="The split whose tasks are meant.")]
PerKind = Annotated[int, typer.Option(min=0, help="Only the first N tasks of each kind; 0 for all.")]
Only = Annotated[str, typer.Option(help="Only tasks whose id holds this text.")]
Workers = Annotated[
    int | None,
    typer.Option(
        min=0, help="Processes; 0: this one. Default: this one for worlds that are fast, else one a core."
    ),
]
Json = Annotated[
    Path | None, typer.Option("--json", help="Write the result to this file.", callback=check_result_file)
]


@app.command("build")
def build(
    recipe: Recipe,
    out: Annotated[Path, typer.Argument(help="The file to write; an unfinished one is completed.")],
    overrides: Overrides = None,
    split: Split = "train",
    per_kind: PerKind = 0,
    only: Only = "",
    sources: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated: sources of the environment, as in walkthrough,expert; best for all; or none. "
            "Default: the recipe's references.source."
        ),
    ] = None,
    imports: Annotated[
        list[Path] | None,
        typer.Option("--import", help="A file of demonstrations; may be given several times."),
    ] = None,
    teachers: Annotated[
        list[str] | None,
        typer.Option("--teacher", help="A checkpoint that plays each task; may be given several times."),
    ] = None,
    rollouts: Annotated[int, typer.Option(min=1, help="Rollouts of each teacher per task.")] = 10,
    workers: Workers = None,
    again: Annotated[
        bool, typer.Option(help="Ask all sources again; a better reference replaces one.")
    ] = False,
    shorten_seconds: Annotated[
        float | None,
        typer.Option(min=0.0, help="How long the candidates of one task may be shortened; 0: not at all."),
    ] = None,
    json_file: Json = None,
) -> None:
    """Replay candidates of every task and keep the best: higher score, then fewer actions.

    \b
    actfirst references build pocket references/pocket.jsonl
    actfirst references build mine.toml references/mine.jsonl --import demonstrations.jsonl.xz
    actfirst references build pocket references/pocket.jsonl --teacher pocket:teacher
    actfirst train pocket references.path=references/pocket.jsonl
    """
    from functools import partial

    from actfirst.config.load import resolve
    from actfirst.environments.registry import kind_of, open_world
    from actfirst.references.build.build import Plan, build_store
    from actfirst.references.build.coverage import coverage
    from actfirst.references.sources import Import
    from actfirst.references.store import ReferenceStore
    from actfirst.runs.preparation import Preparation
    from actfirst.runs.preparation import add as add_cost

    started = Effort.now()
    config = resolve(recipe, overrides or [])
    kind, opener = kind_of(config.environment), partial(open_world, config.environment)
    tasks = choose(opener(), split, per_kind, only)
    files = [Import(path) for path in imports or []]
    for model in teachers or []:
        files.append(play_teacher(config, model, rollouts, tasks, out))
    plan = Plan(
        sources=_names(sources if sources is not None else config.references.source),
        imports=tuple(files),
        care=_care(kind.sources.care, shorten_seconds),
        workers=_workers(config, workers),
        again=again,
    )
    building = Effort.now()
    candidates = 0
    told_of: list[Imported] = []
    with progress("tasks") as told:
        covered = 0

        def tell(done: int, of: int, attempt: Attempt | None) -> None:
            nonlocal covered, candidates
            covered += attempt is not None and attempt.reference is not None
            candidates += attempt.candidates if attempt is not None else 0
            told(done, of, f"{covered} new references")

        configuration = config.environment.model_dump(mode="json")
        build_store(kind, opener, plan, tasks, out, configuration, tell, told_of.append)
    for imported in told_of:
        print_note(imported.text())
    result = coverage(ReferenceStore.read(out))
    print_coverage(out, result)
    effort = Effort.now().since(started)
    print_effort(effort)
    seconds = Effort.now().since(building).seconds
    cost = Preparation(
        environment=config.environment.name, stage="references", seconds=seconds, candidates=candidates
    )
    add_cost(out, cost)
    imported_files = [imported.to_json() for imported in told_of]
    write_result(json_file, {**asdict(result), **asdict(effort), "imports": imported_files})


@app.command("verify")
def verify(
    recipe: Recipe,
    file: Annotated[Path, typer.Argument(help="A reference file.")],
    overrides: Overrides = None,
    split: Split = "train",
    per_kind: PerKind = 0,
    only: Only = "",
    at_least: Annotated[
        float,
        typer.Option(min=0.0, max=100.0, help="Percent of the tasks that must pass every check on every turn."),
    ] = 99.0,
    workers: Workers = None,
    json_file: Json = None,
) -> None:
    """Follow every reference with its own actions in a fresh environment and check each turn.

    Exit code 1 if fewer than --at-least percent of the tasks pass every check. A task without a reference fails.

    Of a file that was built for a part of a split, verify that part (--per-kind, --only).

    A task with an unreliable reference fails too; in worlds that leave things to chance it is left out of the share.

    \b
    actfirst references verify pocket references/pocket.jsonl
    actfirst references verify pocket references/pocket.jsonl --per-kind 2
    """
    from functools import partial

    from actfirst.config.load import resolve
    from actfirst.environments.registry import kind_of, open_world
    from actfirst.references.build.verify import verify_store

    started = Effort.now()
    config = resolve(recipe, overrides or [])
    opener = partial(open_world, config.environment)
    tasks = choose(opener(), split, per_kind, only)
    configuration = config.environment.model_dump(mode="json")
    with progress("references") as told:
        found = verify_store(
            kind_of(config.environment),
            opener,
            file,
            tasks,
            configuration,
            _workers(config, workers),
            on_task=lambda done, of: told(done, of, ""),
        )
    print_verification(found)
    effort = Effort.now().since(started)
    print_effort(effort)
    share = {"percent": found.overall.percent, "at_least": at_least}
    write_result(json_file, {**share, **asdict(found), **asdict(effort)})
    if found.overall.percent < at_least:
        print_note(f"{found.overall.percent:.2f} % is less than --at-least {at_least:g}")
        raise typer.Exit(1)


@app.command("show")
def show(
    file: Annotated[Path, typer.Argument(help="A reference file.")],
    task: Annotated[str | None, typer.Argument(help="A task id, or a part that one id alone has.")] = None,
    json_file: Json = None,
) -> None:
    """What a file covers; with a task, the reference of that task.

    \b
    actfirst references show references/pocket.jsonl
    actfirst references show references/pocket.jsonl train/000003
    """
    from actfirst.references.build.coverage import coverage
    from actfirst.references.store import ReferenceStore

    store = ReferenceStore.read(file)
    if task is not None:
        attempt = store.attempt(_find(store.task_ids(), task, file))
        assert attempt is not None
        print_attempt(attempt)
        write_result(json_file, asdict(attempt))
        return
    header = store.header
    say(f"{header.world} ({header.fingerprint}), made by actfirst {header.actfirst}")
    for key, value in header.configuration.items():
        say(f"  environment.{key} = {value}")
    result = coverage(store)
    print_coverage(file, result)
    write_result(json_file, asdict(result))


def choose(world: World, split: str, per_kind: int, only: str) -> list[Task]:
    from collections import Counter

    from actfirst.errors import TaskError

    taken: Counter[str] = Counter()
    chosen: list[Task] = []
    for task in world.tasks(split):
        if only in task.id and (not per_kind or taken[task.kind] < per_kind):
            taken[task.kind] += 1
            chosen.append(task)
    if not chosen:
        raise TaskError(f"no task of {world.name}/{split} has {only!r} in its id; --only is a part of one")
    return chosen


def _names(given: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in given.split(",") if name.strip() and name.strip() != "none")


def _care(needed: Care, shorten_seconds: float | None) -> Care:
    """What the environment needs, with another shortening budget if one is given."""
    from dataclasses import replace

    from actfirst.environments.solving import Budget

    if shorten_seconds is None:
        return needed
    # Replays are no limit of their own here: who gives seconds means seconds.
    budget = Budget(replays=1_000_000, seconds=shorten_seconds) if shorten_seconds > 0 else None
    return replace(needed, shorten=budget)


def _workers(config: Config, asked: int | None) -> int:
    import os

    from actfirst.environments.registry import hosting

    if asked is not None:
        return asked
    return (os.cpu_count() or 1) if hosting(config.environment).processes else 0


def _find(ids: Sequence[str], part: str, file: Path) -> str:
    from actfirst.errors import TaskError

    if part in ids:
        return part
    found = [task_id for task_id in ids if part in task_id]
    if len(found) != 1:
        fault = f"{len(found)} tasks whose id holds" if found else "no task whose id holds"
        raise TaskError(f"{file} has {fault} {part!r}; name one of its {len(ids)} tasks")
    return found[0]
