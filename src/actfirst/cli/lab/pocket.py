"""`actfirst pocket build`: make the pocket models again, from nothing. `actfirst pocket measure`: what they can do."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note, print_records
from actfirst.cli.options import Seeds, Threads

app = typer.Typer(help="The tiny models that ship with actfirst.", no_args_is_help=True)


@app.command("build")
def build(
    out: Annotated[Path, typer.Option(help="For teacher/, student/ and build_result.json.")] = Path(
        "pocket_models"
    ),
    quick: Annotated[bool, typer.Option("--quick", help="A trial in minutes; its models are useless.")] = False,
    threads: Threads = 2,
) -> None:
    """Train the pocket teacher and student from nothing and measure them. A stopped build is continued.

    \b
    actfirst pocket build --out /tmp/pocket_models
    actfirst train pocket models.student=/tmp/pocket_models/student models.teacher=/tmp/pocket_models/teacher
    """
    from actfirst.lab.pocket_models.build import BuildPlan, build_models
    from actfirst.lab.pocket_models.measure import success_records

    result = build_models(out, BuildPlan.quick() if quick else BuildPlan(), print_note, threads=threads)
    print_records(success_records(result["models"]))
    print_note(f"written to {out}")


@app.command("measure")
def measure(
    model: Annotated[
        list[str] | None, typer.Argument(help="Checkpoint folders. Default: both shipped models.")
    ] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of each split (seen, unseen).")] = 120,
    seeds: Seeds = "42,43,44",
    threads: Threads = 1,
) -> None:
    """Success by three ways of acting: reasoning first, directly, and guided by references.

    \b
    actfirst pocket measure
    actfirst pocket measure runs/my-run
    """
    from actfirst.config.load import resolve
    from actfirst.lab.pocket_models.measure import Scope, first_try_records, measure_model, success_records
    from actfirst.models.folder import resolve_model

    given = resolve("pocket", [f"evaluation.seeds=[{seeds}]"]).evaluation.seeds
    scope = Scope(tasks, given, references=tasks // 2 or 1)
    measured = {}
    for name in model or ["pocket:student", "pocket:teacher"]:
        print_note(f"measuring {name}")
        measured[name] = measure_model(resolve_model(name, "model"), scope, threads)
    print_records(success_records(measured))
    print_records(first_try_records(measured))
