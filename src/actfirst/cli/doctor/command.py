"""`actfirst doctor`: what works on this machine, and how to fix what does not."""

from __future__ import annotations

import typer

from actfirst.cli.console import write_result
from actfirst.cli.options import ResultFile


def doctor(
    json_file: ResultFile = None,
) -> None:
    """Check this machine: Python, torch, memory, the shipped models, the engine, environments, and extras.

    \b
    actfirst doctor

    Ends with exit code 1 only if something that `actfirst train pocket` needs is broken.
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
    for finding in examine([*machine.CHECKS, *default.CHECKS, *environment_checks(), *extras.CHECKS]):
        findings.append(finding)
        state = (f"{finding.state:8s}", styles[finding.state])
        console.print(Text.assemble(state, f"{finding.name:16s} {finding.detail}"), soft_wrap=True)
        if finding.remedy:
            console.print(Text(f"{'':25s}-> {finding.remedy}", "cyan"), soft_wrap=True)
    broken = [finding.name for finding in findings if finding.state is State.BROKEN]
    console.print(
        Text(f"\nbroken: {', '.join(broken)}", "bold red")
        if broken
        else Text("\neverything that `actfirst train pocket` needs works", "bold green")
    )
    write_result(json_file, {"ok": not broken, "findings": [asdict(finding) for finding in findings]})
    if broken:
        raise typer.Exit(1)
