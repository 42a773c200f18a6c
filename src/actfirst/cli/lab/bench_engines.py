"""`actfirst bench startup | engines | decoding`: what a command costs before it does anything, and engines."""

from __future__ import annotations

from typing import Annotated

import typer

from actfirst.cli.console import chosen, print_note, print_records, read_counts, write_result
from actfirst.cli.options import Repeats, ResultFile, Threads
from actfirst.cli.progress import progress


def startup(
    commands: Annotated[list[str] | None, typer.Argument(help="train, eval, play. Default: all.")] = None,
    repeats: Repeats = 5,
    json_file: ResultFile = None,
) -> None:
    """Processor time and modules of `train`, `eval` and `play` up to their first episode.

    \b
    actfirst bench startup
    actfirst bench startup train --repeats 10
    """
    from actfirst.lab.speed.startup import COMMANDS, measure, to_json
    from actfirst.lab.stored import header

    wanted = chosen(commands, COMMANDS, "command")
    with progress("rounds") as told:
        starts = measure(wanted, repeats, told)
    print_records(
        {
            "command": f"actfirst {start.command}",
            "processor time to the first episode (s)": start.spread.text(),
            "modules": f"{start.modules:,}",
        }
        for start in starts
    )
    write_result(json_file, {**header("bench-startup"), **to_json(starts)})


def engines(
    models: Annotated[list[str] | None, typer.Argument(help="12M, 135M. Default: both.")] = None,
    batches: Annotated[str, typer.Option(help="Requests at once, as in 1,8,32.")] = "1,8,32",
    tokens: Annotated[int, typer.Option(min=1, help="Tokens decoded for each request.")] = 32,
    repeats: Repeats = 5,
    threads: Threads = 1,
    json_file: ResultFile = None,
) -> None:
    """The embedded engine beside vLLM (eager), where it is installed: tokens per second of processor time.

    Random Qwen3 models in float32, prompts of 200 tokens, no shared prefixes; the engines take turns in one process.

    \b
    actfirst bench engines
    actfirst bench engines 12M --batches 8 --repeats 2
    """
    from importlib.util import find_spec
    from pathlib import Path
    from tempfile import TemporaryDirectory

    from actfirst.lab.speed.engines import SHAPES, measure, rows, to_json
    from actfirst.lab.stored import header

    wanted = chosen(models, SHAPES, "model")
    kinds = ["embedded", "vllm"] if find_spec("vllm") is not None else ["embedded"]
    if "vllm" not in kinds:
        print_note("vLLM is not installed, so the embedded engine is alone (docs/engines.md)")
    sizes = read_counts(batches, "--batches")
    with TemporaryDirectory() as scratch, progress("rounds") as told:
        points = measure(wanted, kinds, sizes, tokens, repeats, threads, Path(scratch), told)
    print_records(rows(points))
    write_result(json_file, {**header("bench-engines"), **to_json(points)})


def decoding(
    sequences: Annotated[str, typer.Option(help="Sequences at once, as in 1,16,64.")] = "1,16,64",
    lengths: Annotated[str, typer.Option(help="Tokens of each, as in 256,1024.")] = "256,512,1024",
    queries: Annotated[int, typer.Option(min=1, help="Queries for each key-value head.")] = 4,
    repeats: Repeats = 5,
    json_file: ResultFile = None,
) -> None:
    """Attention of a decode step of the embedded engine, by torch and by numpy (processor time, one thread).

    \b
    actfirst bench decoding
    actfirst bench decoding --sequences 64 --lengths 2048 --queries 3
    """
    from actfirst.lab.speed.decoding import measure, to_json
    from actfirst.lab.stored import header

    counts, sizes = read_counts(sequences, "--sequences"), read_counts(lengths, "--lengths")
    with progress("points") as told:
        points = measure(counts, sizes, queries, repeats, told)
    print_records(point.row() for point in points)
    write_result(json_file, {**header("bench-decoding"), **to_json(points)})
