"""`actfirst bench rollout-options`, `bench scale` and `bench update`: what makes training fast (docs/speed.md)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import check_result_file, print_note, print_table, write_result

if TYPE_CHECKING:
    from actfirst.lab.speed.options import Row
    from actfirst.lab.speed.scale import Growth
    from actfirst.lab.speed.update import Comparison

Result = Annotated[
    Path | None, typer.Option("--json", help="Write the result to this file.", callback=check_result_file)
]
Threads = Annotated[int, typer.Option(min=1, help="Threads of torch.")]


def rollout_options(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings of every row.")
    ] = None,
    recipe: Annotated[str, typer.Option(help="Whose environment, models and limits.")] = "pocket",
    model: Annotated[
        str | None, typer.Option(help="A checkpoint folder or a run folder. Default: the recipe's student.")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Batches counted for each row.")] = 4,
    json_file: Result = None,
) -> None:
    """Play the same tasks with each option added in turn; seconds of rollout per response trained on.

    \b
    actfirst bench rollout-options
    actfirst bench rollout-options --rounds 8 rollout.tasks_per_batch=8 --json options.json
    """
    from actfirst.lab.speed.options import measure, to_json
    from actfirst.lab.stored import header
    from actfirst.models.folder import find_model

    def told(index: int, name: str) -> None:
        print_note(f"batch {index} of {rounds}: {name}" + ("" if index else " (warms up, not counted)"))

    student = find_model(model, "--model") if model else None
    rows = measure(recipe, overrides or [], student, rounds, told)
    _show_options(rows)
    write_result(json_file, {**header("bench-rollout-options"), "recipe": recipe, **to_json(rows)})


def scale(
    axes: Annotated[list[str] | None, typer.Argument(help="What doubles. Default: everything.")] = None,
    doublings: Annotated[int, typer.Option(min=1, help="How often it doubles.")] = 3,
    repeats: Annotated[int, typer.Option(min=1, help="Runs of each point; the best one counts.")] = 3,
    threads: Threads = 1,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves into this PNG file.")] = None,
    json_file: Result = None,
) -> None:
    """Time and memory of rollouts as tasks, turns, history, responses and the model double.

    \b
    actfirst bench scale --plot scale.png
    actfirst bench scale "history length" --doublings 4
    """
    from actfirst.errors import ConfigError
    from actfirst.lab.speed.growth import draw_growth
    from actfirst.lab.speed.scale import AXES, Workload, measure, to_json
    from actfirst.lab.stored import header

    if unknown := [axis for axis in axes or () if axis not in AXES]:
        raise ConfigError(f"nothing is called {unknown[0]!r} here; there are {', '.join(AXES)}")
    base = Workload()
    grown = measure(
        base,
        axes or list(AXES),
        doublings,
        repeats,
        threads,
        lambda axis, factor: print_note(f"{axis} x{factor}"),
    )
    _show_scale(grown)
    if plot is not None:
        draw_growth(grown, plot)
        print_note(f"curves: {plot}")
    write_result(json_file, {**header("bench-scale"), **to_json(base, grown)})


def update(
    samples: Annotated[int, typer.Option(min=1, help="Sequences of a batch.")] = 32,
    prompt: Annotated[int, typer.Option(min=2, help="Prompt tokens at most; at least half as many.")] = 320,
    response: Annotated[int, typer.Option(min=1, help="Response tokens.")] = 64,
    micro: Annotated[int, typer.Option(min=1, help="Sequences that TRL computes at once.")] = 8,
    heads: Annotated[int, typer.Option(min=1, help="Width of the model, in heads of 32.")] = 3,
    layers: Annotated[int, typer.Option(min=1, help="Depth of the model.")] = 3,
    vocabulary: Annotated[int, typer.Option(min=2, help="Size of its vocabulary.")] = 1024,
    model: Annotated[str | None, typer.Option(help="A checkpoint folder instead of a random model.")] = None,
    precision: Annotated[
        str, typer.Option(help="float32, bfloat16 (autocast), or both with a comma.")
    ] = "float32",
    steps: Annotated[int, typer.Option(min=1, help="Counted steps of each trainer.")] = 5,
    threads: Threads = 1,
    trl_python: Annotated[
        str, typer.Option(help="An interpreter that has TRL and actfirst; default: this one.")
    ] = "",
    json_file: Result = None,
) -> None:
    """The update step against TRL's trainer on the same model and batch: tokens per second and peak memory.

    TRL comes with the extra `bench`. The two trainers run in processes of their own and take turns.

    \b
    actfirst bench update --precision float32,bfloat16 --json update.json
    actfirst bench update --vocabulary 65536 --trl-python other-venv/bin/python
    """
    import sys
    import tempfile

    from actfirst.errors import ConfigError
    from actfirst.lab.speed.models import Size
    from actfirst.lab.speed.update import Job, compare, to_json
    from actfirst.lab.stored import header

    chosen = precision.split(",")
    if unknown := [name for name in chosen if name not in ("float32", "bfloat16")]:
        raise ConfigError(f"--precision {unknown[0]}: there are float32 and bfloat16")
    found = []
    with tempfile.TemporaryDirectory() as folder:
        place = model or folder
        for name in chosen:
            job = Job(place, vocabulary, samples, prompt, response, micro, name, threads)
            python = trl_python or sys.executable
            found.append(compare(job, Path(folder), Size(heads, layers), steps, python, _stepped))
    _show_update(found)
    write_result(json_file, {**header("bench-update"), **to_json(found)})


def _stepped(trainer: str, step: int) -> None:
    print_note(f"{trainer}: step {step}" + ("" if step else " (warms up, not counted)"))


def _show_options(rows: list[Row]) -> None:
    base = rows[0]
    heads = [
        "rollouts",
        "s per trained response",
        "speedup",
        "by CPU time",
        "tokens/trained",
        "steps",
        "prefilled",
        "saved",
    ]
    print_table(
        heads,
        [
            [
                row.name,
                f"{sum(r.seconds for r in row.rounds) / max(1, sum(r.trained for r in row.rounds)):.4f}",
                row.speedups(base).text(),
                row.cpu_speedups(base).text(),
                f"{row.waste:.2f}",
                str(sum(r.steps for r in row.rounds)),
                str(sum(r.prefilled for r in row.rounds)),
                str(sum(r.saved for r in row.rounds)),
            ]
            for row in rows
        ],
    )


def _show_scale(grown: list[Growth]) -> None:
    heads = [
        "doubles",
        "times",
        "seconds",
        "CPU seconds",
        "slope",
        "memory (MB)",
        "steps",
        "prefilled",
        "generated",
    ]
    rows = []
    for growth in grown:
        for factor, cost, slope in zip(growth.factors, growth.costs, (None, *growth.slopes), strict=True):
            rows.append(
                [
                    growth.axis if factor == 1 else "",
                    f"x{factor}",
                    f"{cost.seconds:.3f}",
                    f"{cost.cpu:.3f}",
                    "" if slope is None else f"{slope:.2f}",
                    f"{cost.memory / 1e6:.1f}",
                    str(cost.steps),
                    str(cost.prefilled),
                    str(cost.generated),
                ]
            )
    print_table(heads, rows)


def _show_update(found: list[Comparison]) -> None:
    heads = ["precision", "trainer", "tokens/s", "peak memory (MB)", "gradient norm", "speedup", "by CPU time"]
    rows = []
    for one in found:
        for name, trained in (("TRL", one.trl), ("actfirst", one.ours)):
            ours = trained is one.ours
            rows.append(
                [
                    one.job.precision,
                    name,
                    trained.tokens_per_second.text(0),
                    f"{trained.memory / 1e6:.0f}",
                    f"{trained.gradient:.6g}",
                    one.speedup.text() if ours else "",
                    one.cpu_speedup.text() if ours else "",
                ]
            )
    print_table(heads, rows)
