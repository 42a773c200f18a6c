"""`actfirst lab`: all methods of a recipe with several training seeds, every measurement, and the report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note
from actfirst.cli.lab.bench import Scale
from actfirst.cli.options import Out, Overrides, Runs


def lab(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or a .toml file.")] = "pocket",
    overrides: Overrides = None,
    methods: Annotated[
        str,
        typer.Option(
            help="Separated by blanks, as METHOD or METHOD:KEY=VALUE; the first is the baseline. all: those that "
            "distil, and the paper's own form of ActFirst-OPD where the recipe's is another."
        ),
    ] = "all",
    runs: Runs = 3,
    updates: Annotated[int | None, typer.Option(min=1, help="Updates per run. Default: the recipe's.")] = None,
    quality_tasks: Annotated[int, typer.Option(min=0, help="Tasks for rollout quality; 0 for all.")] = 100,
    scale: Annotated[Scale, typer.Option(help="Size of the rollout efficiency experiment.")] = "laptop",
    curve_seeds: Annotated[
        str,
        typer.Option(
            help="Evaluation seeds of checkpoints on the way, as in 42,43,44; the last has these three."
        ),
    ] = "42",
    jobs: Annotated[int, typer.Option(min=1, help="Runs at a time, each on a share of the processors.")] = 1,
    out: Out = None,
) -> None:
    """Run every method, evaluate stored checkpoints, measure rollouts, and write the report.

    \b
    actfirst lab
    actfirst lab pocket --methods "vanilla actfirst actfirst:rollout.responses=all" --runs 5
    actfirst lab pocket --updates 20 --jobs 2 --out runs/short-lab

    Runs are interleaved by seed and go to runs/lab-RECIPE. Interrupt it at any time: the same command goes on where it
    was, repeats no finished run and resumes an interrupted one.
    """
    from actfirst.config.load import resolve
    from actfirst.config.recipe_files import short_name
    from actfirst.lab.lab import LabPlan, all_methods, run_lab
    from actfirst.lab.report.page import write_report

    settings = [*(overrides or []), *([f"run.updates={updates}"] if updates is not None else [])]
    config = resolve(recipe, [*settings, f"evaluation.seeds=[{curve_seeds}]"])  # a wrong one is refused now
    plan = LabPlan(
        recipe=recipe,
        methods=tuple(methods.split()) if methods != "all" else all_methods(config),
        overrides=tuple(settings),
        seeds=runs,
        out=out or Path("runs") / f"lab-{short_name(recipe)}",
        quality_tasks=quality_tasks,
        scale=scale,
        curve_seeds=curve_seeds,
        jobs=jobs,
    )
    try:
        failures = run_lab(plan, print_note)
    except KeyboardInterrupt:
        print_note("stopped; the same command goes on from here")
        raise typer.Exit(130) from None
    page = write_report([plan.out], plan.out / "report", f"actfirst lab: {recipe}")
    print_note(f"report: {page}")
    if failures:
        print_note(f"{len(failures)} parts failed; repeat the command to try them again:")
        for line in failures:
            print_note(f"  {line}")
        raise typer.Exit(1)
