"""`actfirst bench checkpoint | budget | learner | driver | turns`: where a run on GPUs loses time, as far as it
shows here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_records, write_result
from actfirst.cli.options import Overrides, Repeats, ResultFile
from actfirst.cli.progress import progress
from actfirst.terminal.visible import say


def checkpoint(
    overrides: Overrides = None,
    sizes: Annotated[int, typer.Option(min=1, max=3, help="How many model sizes, from the smallest.")] = 2,
    repeats: Repeats = 5,
    json_file: ResultFile = None,
) -> None:
    """Time how long the loop waits for a checkpoint: written at once, and beside the loop.

    \b
    actfirst bench checkpoint
    actfirst bench checkpoint --sizes 3 --repeats 3
    """
    from tempfile import TemporaryDirectory

    from actfirst.config.load import resolve
    from actfirst.lab.speed.checkpoints import SIZES, measure, rows, to_json
    from actfirst.lab.stored import header

    config = resolve("pocket", overrides or [])
    with TemporaryDirectory() as scratch, progress("sizes") as told:
        found = measure(config, SIZES[:sizes], repeats, Path(scratch), told)
    print_records(rows(found))
    write_result(json_file, {**header("bench-checkpoint"), **to_json(found)})


def budget(
    models: Annotated[
        list[str] | None, typer.Argument(help="Named shapes. Default: Qwen3-0.6B, Qwen3-1.7B and Qwen3-4B.")
    ] = None,
    json_file: ResultFile = None,
) -> None:
    """Count bytes and FLOPs of the learner's forward and backward pass, and what share of an A100's peak they allow.

    Nothing is computed and no weights are needed. Before: plain kernels; after: fused ones, as on a GPU.

    \b
    actfirst bench budget
    actfirst bench budget Qwen3-4B --json budget.json
    """
    from actfirst.errors import ConfigError
    from actfirst.lab.speed.budget import A100, Work, rows, to_json
    from actfirst.lab.speed.budget import budget as counted
    from actfirst.lab.stored import header
    from actfirst.models.shapes import NAMED

    names = models or ["Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B"]
    if unknown := [name for name in names if name not in NAMED]:
        raise ConfigError(f"there is no shape of {unknown[0]!r}; choose from {', '.join(NAMED)}")
    ways = [("plain", True), ("fused", True), ("fused", False)]
    found = {}
    with progress("models") as told:
        for number, name in enumerate(names, start=1):
            found[name] = [counted(NAMED[name], kernels, recomputed=again) for kernels, again in ways]
            told(number, len(names), name)
    work = Work()
    say(
        f"{work.sequences} sequences of {work.prompt:,} prompt and {work.response:,} response tokens, bfloat16; "
        f"{A100.name}: {A100.flops / 1e12:.0f} TFLOP/s of which {A100.matmul_share:.0%} are reached, "
        f"{A100.bandwidth / 1e12:.2f} TB/s of which {A100.bandwidth_share:.0%}."
    )
    print_records(rows(found))
    write_result(json_file, {**header("bench-budget"), **to_json(found)})


def learner(
    model: Annotated[
        str, typer.Argument(help="A named shape, or tiny for a machine without a GPU.")
    ] = "Qwen3-0.6B",
    rounds: Annotated[int, typer.Option(min=1, help="Counted updates.")] = 3,
    json_file: ResultFile = None,
) -> None:
    """Tokens per second of an update of a random model on this machine, beside what the count predicts for an A100.

    \b
    actfirst bench learner Qwen3-0.6B
    actfirst bench learner tiny
    """
    from dataclasses import asdict
    from tempfile import TemporaryDirectory

    from actfirst.errors import ConfigError
    from actfirst.lab.speed.budget import A100, Work
    from actfirst.lab.speed.smoke import TINY, TINY_WORK, measure
    from actfirst.lab.spread import Spread
    from actfirst.lab.stored import header
    from actfirst.models.shapes import NAMED

    shapes = {**NAMED, "tiny": TINY}
    if model not in shapes:
        raise ConfigError(f"there is no shape of {model!r}; choose from {', '.join(shapes)}")
    with TemporaryDirectory() as scratch:
        pace = measure(shapes[model], TINY_WORK if model == "tiny" else Work(), rounds, Path(scratch))
    print_records(
        [
            {
                "model": model,
                "device": pace.device,
                "kernels": pace.counted.kernels,
                "tokens/s": Spread.of(pace.measured).text(0),
                f"predicted for an {A100.name}": f"{pace.predicted:.0f}",
                "peak memory (GB)": f"{pace.peak / 1e9:.1f}" if pace.peak else "",
            }
        ]
    )
    write_result(
        json_file, {**header("bench-learner"), "model": model, "predicted": pace.predicted, **asdict(pace)}
    )


def driver(
    overrides: Overrides = None,
    at_once: Annotated[str, typer.Option(help="Requests under way at once; several with commas.")] = "16,256",
    wait: Annotated[
        float, typer.Option(min=0.0, help="Milliseconds that engines wait at most, in half of the rows.")
    ] = 40.0,
    prompt: Annotated[int, typer.Option(min=1, help="Tokens of a prompt.")] = 900,
    calls: Annotated[int, typer.Option(min=1, help="Requests of a round.")] = 2048,
    repeats: Repeats = 5,
    json_file: ResultFile = None,
) -> None:
    """Measure what a request to an engine costs the driver of a run on Ray: processor time of its process. As it is,
    in parcels of many, and with a remote call for each, in turn.

    \b
    actfirst bench driver
    actfirst bench driver runtime.rollout_engines=4 --at-once 64 --prompt 4000
    """
    from actfirst.cli.console import read_counts
    from actfirst.config.load import resolve
    from actfirst.lab.speed.driver import Load, measure, rows, to_json
    from actfirst.lab.stored import header

    config = resolve("pocket", ["runtime.kind=ray", *(overrides or [])])
    load = Load((0.0, wait / 1e3), tuple(read_counts(at_once, "--at-once")), prompt, calls, repeats)
    with progress("rounds") as told:
        found = measure(config, load, told)
    print_records(rows(found))
    write_result(json_file, {**header("bench-driver"), "costs": to_json(found)})


def turns(
    overrides: Overrides = None,
    drivers: Annotated[int, typer.Option(min=0, help="Rollout drivers, beside none at all.")] = 2,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks that are played at once.")] = 64,
    repeats: Repeats = 5,
    json_file: ResultFile = None,
) -> None:
    """Measure what a turn costs the run's own process beside the requests to engines: prompts, tokens, environments,
    bookkeeping. With rollout drivers, what they leave to it.

    \b
    actfirst bench turns
    actfirst bench turns --drivers 0 environment.prompts=growing
    """
    from actfirst.config.load import resolve
    from actfirst.lab.speed.turns import measure, rows, to_json
    from actfirst.lab.stored import header

    settings = (f"rollout.tasks_per_batch={tasks}", "rollout.generation.drafts=true", "pool.kind=inline")
    config = resolve("pocket", [*settings, *(overrides or [])])
    with progress("rounds") as told:
        found = measure(config, sorted({0, drivers}), repeats, told)
    print_records(rows(found))
    write_result(json_file, {**header("bench-turns"), "costs": to_json(found)})
