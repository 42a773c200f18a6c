"""`actfirst bench rollout-options | scale | prompts | update | sync`: what makes training fast (docs/speed.md)."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import chosen, print_note, print_records, read_counts, write_result
from actfirst.cli.options import Model, Overrides, Python, Recipe, Repeats, ResultFile, Threads
from actfirst.cli.progress import progress
from actfirst.terminal.visible import say

if TYPE_CHECKING:
    from actfirst.lab.speed.options import Row
    from actfirst.lab.speed.prompts import Prefill, Updates
    from actfirst.lab.speed.scale import Growth
    from actfirst.lab.speed.swaps import SwapTiming
    from actfirst.lab.speed.sync import SyncTiming
    from actfirst.lab.speed.update import Comparison


def rollout_options(
    overrides: Overrides = None,
    recipe: Recipe = "pocket",
    model: Model = None,
    rounds: Annotated[int, typer.Option(min=1, help="Batches counted for each row.")] = 4,
    json_file: ResultFile = None,
) -> None:
    """Play the same tasks with each option added in turn; seconds of rollout per response trained on.

    \b
    actfirst bench rollout-options
    actfirst bench rollout-options --rounds 8 rollout.tasks_per_batch=8 --json options.json
    """
    from actfirst.lab.speed.options import measure, to_json
    from actfirst.lab.stored import header
    from actfirst.models.folder import resolve_model

    student = resolve_model(model, "--model") if model else None
    with progress("batches") as told:
        rows = measure(recipe, overrides or [], student, rounds, told)
    _show_options(rows)
    write_result(json_file, {**header("bench-rollout-options"), "recipe": recipe, **to_json(rows)})


def scale(
    axes: Annotated[list[str] | None, typer.Argument(help="What doubles. Default: everything.")] = None,
    doublings: Annotated[int, typer.Option(min=1, help="How often it doubles.")] = 3,
    repeats: Repeats = 3,
    threads: Threads = 1,
    plot: Annotated[Path | None, typer.Option(help="Draw the curves into this PNG file.")] = None,
    json_file: ResultFile = None,
) -> None:
    """Time and memory of rollouts as tasks, turns, history, responses and the model double.

    \b
    actfirst bench scale --plot scale.png
    actfirst bench scale "history length" --doublings 4
    """
    from actfirst.lab.speed.scale import AXES, Workload, draw_growth, measure, to_json
    from actfirst.lab.stored import header

    wanted, base = chosen(axes, AXES, "axis"), Workload()
    with progress("runs") as told:
        grown = measure(base, wanted, doublings, repeats, threads, told)
    _show_scale(grown)
    if plot is not None:
        draw_growth(grown, plot)
        print_note(f"curves: {plot}")
    write_result(json_file, {**header("bench-scale"), **to_json(base, grown)})


def limits(
    names: Annotated[list[str] | None, typer.Argument(help="Which limits. Default: all.")] = None,
    smaller: Annotated[int, typer.Option(min=1, help="How many times smaller than the limits.")] = 1,
    json_file: ResultFile = None,
) -> None:
    """Time and memory at 10,000 tasks, 1,000,000 lines of metrics and 1,024 episodes at once, and at parts of that.

    \b
    actfirst bench limits
    actfirst bench limits tasks --smaller 10
    """
    from actfirst.lab.speed.limits import LIMITS, measure
    from actfirst.lab.stored import header

    wanted = chosen(names, LIMITS, "limit")
    with progress("points") as told:
        points = measure(wanted, smaller, told)
    print_records(
        [
            {
                "what": name,
                "size": f"{point.size:,}",
                "processor time (s)": f"{point.cpu:.2f}",
                "each (ms)": f"{1e3 * point.cpu / point.size:.3f}",
                "memory (MB)": f"{point.memory / 1e6:.0f}",
                "each (kB)": f"{point.memory / 1e3 / point.size:.2f}",
            }
            for name, of in points.items()
            for point in of
        ]
    )
    measured = {name: [asdict(point) for point in of] for name, of in points.items()}
    write_result(json_file, {**header("bench-limits"), "limits": measured})


def prompts(
    overrides: Overrides = None,
    recipe: Recipe = "pocket",
    model: Model = None,
    tasks: Annotated[int, typer.Option(min=1, help="Episodes at once.")] = 16,
    turns: Annotated[
        str, typer.Option("--horizons", help="Turns of an episode; several to see growth.")
    ] = "15,30",
    response: Annotated[int, typer.Option(min=1, help="Tokens of a response in an update.")] = 64,
    rounds: Annotated[int, typer.Option(min=0, help="Counted rounds of updates; 0: prefill alone.")] = 5,
    size: Annotated[
        str | None, typer.Option(help="12M or 135M: a random model with the student's tokenizer.")
    ] = None,
    json_file: ResultFile = None,
) -> None:
    """The paper's prompts and growing ones on the same episodes: tokens prefilled, tokens of an update, seconds.

    \b
    actfirst bench prompts
    actfirst bench prompts --horizons 15,30,60 environment.turn_limit=60 rollout.generation.prompt_limit=1900
    actfirst bench prompts --size 135M --tasks 2 --horizons 8 --rounds 0 engine.kind=vllm
    """
    from tempfile import TemporaryDirectory

    from actfirst.config.load import resolve
    from actfirst.lab.speed.engines import with_tokenizer
    from actfirst.lab.speed.prompts import measure_prefill, measure_updates, to_json
    from actfirst.lab.stored import header
    from actfirst.models.folder import resolve_model

    config, lengths = resolve(recipe, overrides or []), read_counts(turns, "--horizons")
    student = resolve_model(model or config.models.student, "--model" if model else "models.student")
    with TemporaryDirectory() as scratch:
        if size is not None:
            student = with_tokenizer(Path(scratch), size, student)
        with progress("episodes") as told:
            prefill = measure_prefill(config, student, tasks, lengths, told)
        updates = []
        if rounds:
            with progress("updates") as told:
                updates = measure_updates(config, student, tasks, max(lengths), response, rounds, told)
    _show_prefill(prefill)
    if updates:
        _show_update_tokens(updates)
    write_result(json_file, {**header("bench-prompts"), "recipe": recipe, **to_json(prefill, updates)})


def update(
    samples: Annotated[int, typer.Option(min=1, help="Sequences of a batch.")] = 32,
    prompt: Annotated[int, typer.Option(min=2, help="Prompt tokens at most; at least half as many.")] = 320,
    response: Annotated[int, typer.Option(min=1, help="Response tokens.")] = 64,
    micro: Annotated[int, typer.Option(min=1, help="Sequences that TRL computes at once.")] = 8,
    heads: Annotated[int, typer.Option(min=1, help="Width of the model, in heads of 32.")] = 3,
    layers: Annotated[int, typer.Option(min=1, help="Depth of the model.")] = 3,
    vocabulary: Annotated[int, typer.Option(min=2, help="Size of its vocabulary.")] = 1024,
    model: Annotated[str | None, typer.Option(help="A checkpoint folder instead of a random model.")] = None,
    precision: Annotated[str, typer.Option(help="float32, bfloat16, or both with a comma.")] = "float32",
    steps: Annotated[int, typer.Option(min=1, help="Counted steps of each trainer.")] = 5,
    threads: Threads = 1,
    trl_python: Python = "",
    json_file: ResultFile = None,
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
    from actfirst.models.folder import resolve_model

    chosen = precision.split(",")
    if unknown := [name for name in chosen if name not in ("float32", "bfloat16")]:
        raise ConfigError(f"--precision {unknown[0]}: choose float32, bfloat16, or both")
    found = []
    with tempfile.TemporaryDirectory() as folder, progress("steps") as told:
        place = str(resolve_model(model, "--model")) if model else folder
        for name in chosen:
            job = Job(place, vocabulary, samples, prompt, response, micro, name, threads)
            found.append(compare(job, Size(heads, layers), steps, trl_python or sys.executable, told))
    _show_update(found)
    write_result(json_file, {**header("bench-update"), **to_json(found)})


def sync(
    overrides: Overrides = None,
    engine: Annotated[list[str], typer.Option(help="embedded or vllm; may be repeated.")] = ["embedded"],  # noqa: B006
    runtime: Annotated[list[str], typer.Option(help="local or ray; may be repeated.")] = ["local"],  # noqa: B006
    sizes: Annotated[int, typer.Option(min=2, max=4, help="How many model sizes, from the smallest.")] = 3,
    repeats: Repeats = 5,
    under_way: Annotated[
        int, typer.Option(min=0, help="Full responses under way at timed swaps; 0: none.")
    ] = 16,
    out: Annotated[Path, typer.Option("--out", help="The result file.")] = Path("runs/bench/sync.json"),
) -> None:
    """Time weight synchronisation for random models of growing size, and check that the new weights are in use.

    Then time what each `engine.swap` costs while the recipe's student generates full responses.

    \b
    actfirst bench sync
    actfirst bench sync --runtime local --runtime ray --sizes 4
    actfirst bench sync --engine vllm engine.vllm.enforce_eager=true
    actfirst bench sync --runtime ray runtime.rollout_engines=2 runtime.weight_sync=collective
    """
    from tempfile import TemporaryDirectory

    from actfirst.config.load import resolve
    from actfirst.lab.speed import swaps
    from actfirst.lab.speed.sync import SIZES, growth, measure, to_json
    from actfirst.lab.stored import store

    combinations = [
        resolve("pocket", [*(overrides or []), f"engine.kind={kind}", f"runtime.kind={where}"])
        for kind in engine
        for where in runtime
    ]
    timings: list[SyncTiming] = []
    slopes = []
    for config in combinations:
        with TemporaryDirectory() as scratch, progress("sizes") as told:
            found = measure(config, SIZES[:sizes], repeats, Path(scratch), told)
        timings += found
        slopes.append(
            f"{config.engine.kind} engine, {config.runtime.kind} runtime: {growth(found) * 1e3:.0f} ms"
        )
    _show_sync(timings)
    say("\n".join(f"{slope} for each further 100 million parameters" for slope in slopes))
    swapped: list[SwapTiming] = []
    for kind in engine if under_way else []:
        config = resolve("pocket", [*(overrides or []), f"engine.kind={kind}"])
        with progress("rounds") as told:
            found_swaps = swaps.measure(config, under_way, repeats, told)
        _show_swaps(found_swaps, under_way)
        swapped += found_swaps
    store(out, "bench-sync", {"timings": to_json(timings), "swaps": swaps.to_json(swapped)})
    print_note(f"result: {out}")


def general(
    model: Annotated[str, typer.Argument(help="A qwen3, qwen2 or llama model.")] = "pocket:student",
    rounds: Annotated[int, typer.Option(min=1, help="Counted turns of each pass.")] = 5,
    threads: Threads = 1,
    json_file: ResultFile = None,
) -> None:
    """How much slower a model's own transformers forward pass is than the hand-written one, on the same weights.

    \b
    actfirst bench general
    actfirst bench general Qwen2.5-0.5B-Instruct --rounds 2
    """
    from actfirst.lab.speed.general import measure, to_json
    from actfirst.lab.spread import Spread
    from actfirst.lab.stored import header
    from actfirst.models.folder import resolve_model

    with progress("turns") as told:
        found = measure(resolve_model(model, "MODEL"), rounds, threads, told)
    print_records(
        {
            "pass": one.what,
            "tokens": str(one.tokens),
            "hand-written (CPU s)": Spread.of(one.hand_written).text(),
            "general (CPU s)": Spread.of(one.general).text(),
            "times slower": one.slower.text(),
        }
        for one in found
    )
    write_result(json_file, {**header("bench-general"), "model": model, **to_json(found)})


def _show_swaps(found: list[SwapTiming], under_way: int) -> None:
    from actfirst.lab.spread import Spread

    say(f"New weights while {under_way} full responses are under way, median (least-most):")
    print_records(
        {
            "engine": one.engine,
            "swap": one.swap,
            "ms to the next fast token": Spread.of([1e3 * s for s in one.held]).text(0),
            "times sooner": one.saved(found[0]).text(1),
            "ms to the swap": Spread.of([1e3 * s for s in one.swapped]).text(0),
            "ms to the end of the responses": Spread.of([1e3 * s for s in one.ended]).text(0),
        }
        for one in found
    )


def _show_options(rows: list[Row]) -> None:
    print_records(
        {
            "rollouts": row.name,
            "s per trained response": f"{row.total('seconds') / max(1, row.total('trained')):.4f}",
            "speedup": row.speedup(rows[0]).text(),
            "by CPU time": row.speedup(rows[0], "cpu").text(),
            "tokens/trained": f"{row.waste:.2f}",
            **{key: f"{row.total(key):.0f}" for key in ("steps", "prefilled", "saved")},
        }
        for row in rows
    )


def _show_scale(grown: list[Growth]) -> None:
    print_records(
        {
            "doubles": growth.axis if factor == 1 else "",
            "times": f"x{factor}",
            "seconds": f"{cost.seconds:.3f}",
            "CPU seconds": f"{cost.cpu:.3f}",
            "slope": "" if slope is None else f"{slope:.2f}",
            "memory (MB)": f"{cost.memory / 1e6:.1f}",
            "steps": str(cost.steps),
            "prefilled": str(cost.prefilled),
            "generated": str(cost.generated),
        }
        for growth in grown
        for factor, cost, slope in zip(growth.factors, growth.costs, (None, *growth.slopes), strict=True)
    )


def _show_prefill(rows: list[Prefill]) -> None:
    least = {row.turns: min(other.new for other in rows if other.turns == row.turns) for row in rows}
    print_records(
        {
            "prompts": row.order,
            "turns": str(row.turns),
            "prompt tokens": str(row.tokens),
            "prefilled": str(row.prefilled),
            "in no prefix": str(row.new),
            "new": str(least[row.turns]),
            "prefilled per new": f"{row.prefilled / least[row.turns]:.2f}",
            "cached": str(row.cached),
            "seconds": f"{row.seconds:.2f}",
            "CPU seconds": f"{row.cpu:.2f}",
        }
        for row in rows
    )


def _show_update_tokens(cases: list[Updates]) -> None:
    from actfirst.lab.spread import Spread

    print_records(
        {
            "prompts": one.order,
            "responses": one.responses,
            "tokens per supervised: alone": f"{one.alone / one.supervised:.2f}",
            "by length": f"{one.by_length / one.supervised:.2f}",
            "by prefix": f"{one.computed / one.supervised:.2f}",
            "s per update": Spread.of(one.seconds).text(3),
            "by CPU time": Spread.of(one.cpu).text(3),
        }
        for one in cases
    )


def _show_update(found: list[Comparison]) -> None:
    print_records(
        {
            "precision": one.job.precision,
            "trainer": name,
            "tokens/s": trained.tokens_per_second.text(0),
            "peak memory (MB)": f"{trained.memory / 1e6:.0f}",
            "gradient norm": f"{trained.gradient:.6g}",
            "speedup": one.speedup.text() if trained is one.ours else "",
            "by CPU time": one.cpu_speedup.text() if trained is one.ours else "",
        }
        for one in found
        for name, trained in (("TRL", one.trl), ("actfirst", one.ours))
    )


def _show_sync(timings: list[SyncTiming]) -> None:
    print_records(
        {
            "engine": timing.engine,
            "runtime": timing.runtime,
            "parameters (M)": f"{timing.parameters / 1e6:.2f}",
            "weights (ms)": f"{timing.announce_seconds * 1e3:.1f}",
            "first token (ms)": f"{timing.token_seconds * 1e3:.1f}",
            "in all (ms)": f"{timing.seconds * 1e3:.1f}",
            "log-prob error": f"{timing.logprob_error:.1g}",
        }
        for timing in timings
    )
