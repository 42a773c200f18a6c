"""`actfirst bench storing` and `weight-check`: what storing for the viewer and the proof of new weights cost a run."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_table, write_result
from actfirst.cli.options import Overrides, ResultFile
from actfirst.cli.progress import progress

_QUIET = (
    "evaluation.every=0",
    "evaluation.at_start=false",
    "evaluation.at_end=false",
    "evaluation.teacher=false",
)


def storing(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or a .toml file.")] = "pocket",
    overrides: Overrides = None,
    block: Annotated[int, typer.Option(min=1, help="Updates of each block.")] = 2,
    json_file: ResultFile = None,
) -> None:
    """Measure what storing responses and episodes for the viewer costs: time and bytes.

    One run, in which blocks of updates are stored and not stored in turn. Processor time is that of the thread that
    stores, against that of all training; it also counts the lines of episodes, which every run writes.

    \b
    actfirst bench storing
    actfirst bench storing pocket run.updates=24 --json storing.json
    """
    from actfirst.config.load import resolve
    from actfirst.lab.storing import measure_storing

    config = resolve(recipe, [*_QUIET, *(overrides or [])])
    with tempfile.TemporaryDirectory() as place, progress("updates") as told:
        cost = asyncio.run(
            measure_storing(config, Path(place) / "run", block, lambda done, of: told(done, of, ""))
        )
    print_table(
        ["quantity", "value"],
        [
            ["share of training's processor time", f"{cost.share:.2f} %"],
            ["stored responses", f"{cost.stored_responses}, {cost.bytes_per_response:,.0f} bytes each"],
            ["processor time of one", f"{1e3 * cost.seconds_per_response:.2f} ms"],
            ["episodes", f"{cost.episodes}, {cost.bytes_per_episode:,.0f} bytes each"],
            ["processor time of one", f"{1e3 * cost.seconds_per_episode:.2f} ms"],
            [
                "listing the teacher's alternatives of one",
                f"{1e3 * cost.alternatives_seconds_per_response:.2f} ms",
            ],
            [
                f"{block} updates with storing",
                f"{cost.block_processor_with:.2f} s of processor, {cost.block_seconds_with:.2f} s (medians of blocks)",
            ],
            [
                f"{block} updates without",
                f"{cost.block_processor_without:.2f} s of processor, {cost.block_seconds_without:.2f} s",
            ],
            [
                "spread of processor time",
                f"{cost.block_processor_spread:.1f} % of the mean, {cost.blocks} blocks",
            ],
        ],
    )
    write_result(json_file, cost.to_json())


def weight_check(
    recipe: Annotated[str, typer.Argument(help="A recipe's name or a .toml file.")] = "pocket",
    overrides: Overrides = None,
    block: Annotated[int, typer.Option(min=1, help="Updates of each block.")] = 2,
    json_file: ResultFile = None,
) -> None:
    """Measure what the proof that new weights arrived costs: one run, blocks of updates with and without it in turn.

    \b
    actfirst bench weight-check pocket run.updates=40
    """
    from actfirst.config.load import resolve
    from actfirst.lab.weight_check import measure_weight_check

    config = resolve(recipe, [*_QUIET, *(overrides or [])])
    with tempfile.TemporaryDirectory() as place, progress("updates") as told:
        cost = asyncio.run(
            measure_weight_check(config, Path(place) / "run", block, lambda done, of: told(done, of, ""))
        )
    print_table(
        ["quantity", "with the check", "without"],
        [
            [f"processor time of {block} updates", f"{cost.cpu_with:.3f} s", f"{cost.cpu_without:.3f} s"],
            [f"time of {block} updates", f"{cost.seconds_with:.2f} s", f"{cost.seconds_without:.2f} s"],
            ["ratio of processor time", f"{cost.ratio:.3f}", "1"],
        ],
    )
    write_result(json_file, cost.to_json())
