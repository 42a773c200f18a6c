"""`actfirst doctor`: what works on this machine, and how to fix what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import write_result
from actfirst.cli.options import Overrides, ResultFile

if TYPE_CHECKING:
    from actfirst.environments.findings import Finding


def doctor(
    recipe: Annotated[
        str | None,
        typer.Argument(help="Check also what this recipe names (models, folders, files) and its GPUs."),
    ] = None,
    overrides: Overrides = None,
    json_file: ResultFile = None,
) -> None:
    """Check this machine: Python, torch, memory, the shipped models, the engine, environments, and extras.

    \b
    actfirst doctor
    actfirst doctor pocket models.student=Qwen/Qwen3-0.6B

    Ends with exit code 1 only if something that `actfirst train pocket`, or the recipe named, needs is broken.
    """
    from dataclasses import asdict

    from rich.text import Text

    from actfirst.cli.doctor import default, extras, machine
    from actfirst.cli.doctor.environments import environment_checks
    from actfirst.environments.findings import State, examine
    from actfirst.terminal.console import Console

    console = Console(highlight=False)
    styles = {State.OK: "green", State.WARN: "yellow", State.MISSING: "dim", State.BROKEN: "bold red"}
    findings = []
    checks = [*machine.CHECKS, *default.CHECKS, *environment_checks(), *extras.CHECKS]
    for finding in [*examine(checks), *(_recipe(recipe, overrides or []) if recipe else [])]:
        findings.append(finding)
        state = (f"{finding.state:8s}", styles[finding.state])
        console.print(Text.assemble(state, f"{finding.name:16s} {finding.detail}"), soft_wrap=True)
        if finding.remedy:
            console.print(Text(f"{'':25s}-> {finding.remedy}", "cyan"), soft_wrap=True)
    broken = [finding.name for finding in findings if finding.state is State.BROKEN]
    console.print(
        Text(f"\nbroken: {', '.join(broken)}", "bold red")
        if broken
        else Text(f"\neverything that `actfirst train {recipe or 'pocket'}` needs works", "bold green")
    )
    write_result(json_file, {"ok": not broken, "findings": [asdict(finding) for finding in findings]})
    if broken:
        raise typer.Exit(1)


def _recipe(recipe: str, overrides: list[str]) -> list[Finding]:
    """One finding for each fault of a recipe, or one that says that there is none."""
    from actfirst.cli.doctor.gpus import Machine, gpu_findings
    from actfirst.config.load import resolve
    from actfirst.environments.findings import Finding, State
    from actfirst.training.preflight import faults

    config = resolve(recipe, overrides)
    gpus = list(gpu_findings(config, Machine.look()))
    found = faults(config)
    if not found:
        return [Finding("recipe", State.OK, f"all that {recipe} names is there"), *gpus]
    return [*(Finding("recipe", State.BROKEN, fault) for fault in found), *gpus]
