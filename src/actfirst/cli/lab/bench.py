"""`actfirst bench ...`: measurements that are commands of their own, each with a stored result.

A measurement lives in `actfirst.lab`; here are its options and how its result is shown. A command is added by
one line at the end of this file.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from actfirst.cli.console import print_note, print_records, print_table, read_counts
from actfirst.cli.lab import bench_engines, bench_envs, bench_gpu, bench_speed, bench_storing
from actfirst.cli.options import Model, Out, Overrides, Recipe
from actfirst.cli.progress import progress
from actfirst.methods.strategies import Strategy
from actfirst.terminal.visible import say

if TYPE_CHECKING:
    from actfirst.config.config import Config
    from actfirst.lab.quality_bench import FrozenCheckpoint

app = typer.Typer(help="Measure rollouts and environments, and store the results.", no_args_is_help=True)
RESULTS = Path("runs") / "bench"
Scale = Literal["paper", "laptop", "tiny"]
"""Sizes of the rollout experiment (`actfirst.lab.rollout.settings`)."""


def rollout(
    overrides: Overrides = None,
    recipe: Recipe = "pocket",
    model: Model = None,
    scale: Annotated[
        Scale, typer.Option(help="laptop: a quarter of the paper's lengths; tiny: a trial.")
    ] = "laptop",
    simulated: Annotated[
        bool, typer.Option("--simulated", help="On a latency model, without a model.")
    ] = False,
    step_ms: Annotated[float, typer.Option(help="Simulated: an engine step.")] = 6.5,
    sequence_ms: Annotated[float, typer.Option(help="Simulated: each sequence in a step.")] = 0.15,
    prompt_token_ms: Annotated[float, typer.Option(help="Simulated: each prompt token.")] = 0.015,
    prompt_tokens: Annotated[int, typer.Option(min=1, help="Simulated: length of the contexts.")] = 900,
    fifo: Annotated[bool, typer.Option("--fifo", help="Requests in order of arrival, not fast first.")] = False,
    optimised: Annotated[
        bool, typer.Option("--optimised", help="Beyond the paper: see docs/speed.md.")
    ] = False,
    contexts: Annotated[int, typer.Option(min=0, help="Number of contexts; 0: the scale's.")] = 0,
    repeats: Annotated[int, typer.Option(min=0, help="Paired repeats; 0: the scale's.")] = 0,
    full: Annotated[
        str, typer.Option("--lengths", help="Response lengths, as in 128. Default: the scale's.")
    ] = "",
    caps: Annotated[str, typer.Option(help="Caps, as in 16,256. Default: the scale's.")] = "",
    horizons: Annotated[str, typer.Option(help="Numbers of turns, as in 30. Default: the scale's.")] = "",
    out: Out = None,
) -> None:
    """Time think-then-act against act-first on virtual turns from fixed contexts (the paper's experiment).

    \b
    actfirst bench rollout
    actfirst bench rollout --optimised --scale paper --contexts 16 --caps 16,256 --horizons 30
    actfirst bench rollout --simulated --scale paper

    Prefix caching is off, as in the paper, unless you switch it on; --scale paper also takes the paper's share of GPU
    memory (0.85) and tokens per step (16,384). --optimised shares prefixes, pauses responses for fast actions, paces.
    Beside each speedup stand its limits, estimated from single requests and timed on this engine. A stopped measurement
    is continued by repeating the command. Result: runs/bench/rollout-RECIPE.json.
    """
    from dataclasses import replace

    from actfirst.config.load import resolve
    from actfirst.config.recipe_files import short_name
    from actfirst.lab.rollout.experiment import measure, simulate
    from actfirst.lab.rollout.settings import SCALES, engine_of
    from actfirst.lab.rollout.simulated import LatencyModel
    from actfirst.models.folder import resolve_model

    sized = SCALES[scale]
    settings = replace(
        sized,
        fast_first=not fifo,
        optimised=optimised,
        contexts=contexts or sized.contexts,
        repeats=repeats or sized.repeats,
        full=read_counts(full, "--lengths") if full else sized.full,
        caps=read_counts(caps, "--caps") if caps else sized.caps,
        horizons=read_counts(horizons, "--horizons") if horizons else sized.horizons,
    )
    name = "simulated" if simulated else short_name(recipe) + ("-optimised" if optimised else "")
    path = out or RESULTS / f"rollout-{name}.json"
    with progress("points") as told:
        if simulated:
            stated = LatencyModel(step_ms / 1e3, sequence_ms / 1e3, prompt_token_ms / 1e3)
            print_note(f"SIMULATED, not measured: {stated.describe()}")
            simulate(stated, prompt_tokens, settings.one_batch(), path, told)
        else:
            config = resolve(recipe, [*engine_of(scale, optimised=optimised), *(overrides or [])])
            student = model or config.models.student
            measure(config, recipe, resolve_model(student, "--model"), student, settings, path, told)
    _show_rollout(path)
    print_note(f"result: {path}")


def quality(
    checkpoints: Annotated[
        list[str],
        typer.Argument(metavar="CHECKPOINT|KEY=VALUE", help="Checkpoint or run folders; and settings."),
    ],
    recipe: Annotated[str | None, typer.Option(help="Default: the run's own, else pocket.")] = None,
    tasks: Annotated[int, typer.Option(min=0, help="Training tasks, drawn by task type; 0 for all.")] = 100,
    seed: Annotated[int, typer.Option(help="Seed of the draws, the same for all strategies.")] = 42,
    act: Annotated[list[Strategy] | None, typer.Option(help="May be repeated. Default: all three.")] = None,
    out: Out = None,
) -> None:
    """Play think-then-act, direct and guided action from frozen checkpoints with matched seeds.

    \b
    actfirst bench quality pocket:student
    actfirst bench quality runs/vanilla --tasks 0
    actfirst bench quality MODEL --recipe alfworld-small --tasks 20 --act guided
    actfirst bench quality runs/vanilla/checkpoints/step-000030/model --recipe pocket

    Of a run folder the newest checkpoint is played. Result: runs/bench/quality-RECIPE.json.
    """
    from actfirst.config.recipe_files import short_name
    from actfirst.lab.quality_bench import Workload, measure

    used, config, frozen = _named_models(checkpoints, recipe, "quality")
    path = out or RESULTS / f"quality-{short_name(used)}.json"
    load = Workload(tasks, seed, tuple(act or Strategy))
    with progress("trajectories") as told:
        measure(config, used, frozen, load, path, lambda what, done, of: told(done, of, what))
    _show_quality(path)
    print_note(f"result: {path}")


def stages(
    runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
    out: Out = None,
) -> None:
    """Say by stage of a task what the rollouts of runs visited, and how far student and teacher were apart there.

    \b
    actfirst bench stages runs/vanilla runs/actfirst

    Needs a world with a demonstrator (pocket houses, ALFWorld, WebShop, ScienceWorld). Result: runs/bench/stages.json.
    """
    from actfirst.lab.stages import StageRow, measure
    from actfirst.lab.stored import BENCH_STAGES, store

    rows: list[StageRow] = []
    for run in runs:
        with progress("episodes") as told:
            rows += measure(run, told)
    path = out or RESULTS / "stages.json"
    store(path, BENCH_STAGES, {"rows": [row.to_json() for row in rows]})
    print_records(
        {
            "run": row.run,
            "stage": row.stage,
            "contexts": f"{row.turns:,}",
            "of all (%)": f"{row.share:.1f}",
            "episodes that reach it (%)": f"{row.reached:.1f}",
            "stored responses": f"{row.responses:,}",
            "reverse KL early": "–" if row.early is None else f"{row.early:.3f}",
            "late": "–" if row.late is None else f"{row.late:.3f}",
        }
        for row in rows
    )
    print_note(f"result: {path}")


def distance(
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL|KEY=VALUE", help="Model or run folders; and settings.")
    ],
    recipe: Annotated[str | None, typer.Option(help="Default: the run's own, else pocket.")] = None,
    tasks: Annotated[int, typer.Option(min=1, help="Training tasks, drawn by task type.")] = 20,
    contexts: Annotated[int, typer.Option(min=1, help="Turns of each task's reference.")] = 2,
    seed: Annotated[int, typer.Option(help="Seed of the draws, the same for all models.")] = 42,
    out: Out = None,
) -> None:
    """Say how far models are from the teacher in the same contexts: the reverse KL per token of their own responses.

    \b
    actfirst bench distance pocket:student runs/pocket-1
    actfirst bench distance STUDENT runs/qwen --recipe alfworld-qwen models.teacher=TEACHER environment.folder=GAMES

    Contexts are turns of references. What training has closed shows here long before it shows in success; the change
    is that to the first model, with a 95 % interval over tasks. Result: runs/bench/distance-RECIPE.json.
    """
    from actfirst.config.recipe_files import short_name
    from actfirst.lab.distance import Workload, measure, summarise
    from actfirst.lab.stored import BENCH_DISTANCE, store

    used, config, named = _named_models(models, recipe, "distance")
    with progress("responses") as told:
        answers = measure(config, named, Workload(tasks, contexts, seed), told)
    rows = summarise(answers)
    path = out or RESULTS / f"distance-{short_name(used)}.json"
    fields = {"recipe": used, "teacher": config.models.teacher, "rows": [row.to_json() for row in rows]}
    said = {name: [one.to_json() for one in found] for name, found in answers.items()}
    store(path, BENCH_DISTANCE, {**fields, "answers": said})
    print_records(
        {
            "model": row.model,
            "contexts": f"{row.contexts:,}",
            "reverse KL per token": f"{row.distance:.3f}",
            "95 %": row.interval.text(3) if row.interval else "–",
            "change": "–" if row.change is None else f"{row.change:+.3f}",
            "its 95 %": row.change_interval.text(3) if row.change_interval else "–",
            "tokens each": f"{row.tokens:.1f}",
            "listed actions (%)": f"{row.admissible:.1f}",
        }
        for row in rows
    )
    print_note(f"result: {path}")


def gigpo(
    file: Annotated[Path, typer.Argument(help="Cases with known advantages, as JSON.")],
) -> None:
    """Compare group-relative advantages with known ones; fails where they differ by more than 1e-5.

    A case is steps with task, trajectory, observation, reward and episode_reward; the constants gamma, mode,
    similarity, step_weight and epsilon; and what is expected: returns, groups, episode_over_steps,
    episode_over_trajectories, step and advantage_over_steps.
    """
    from actfirst.lab.bench_gigpo import TOLERANCE, compare_file

    found = compare_file(file)
    print_records(
        {"value": name, "largest difference": f"{value:.2g}"} for name, value in found.largest.items()
    )
    print_note(f"{found.cases} cases, {found.steps} steps; largest difference {found.worst:.2g}")
    if found.worst > TOLERANCE:
        raise typer.Exit(1)


def _named_models(
    texts: list[str], recipe: str | None, command: str
) -> tuple[str, Config, list[FrozenCheckpoint]]:
    """What a command line names by models and settings: the recipe's name, the recipe with the settings, the models."""
    from actfirst.config.load import resolve
    from actfirst.errors import ConfigError
    from actfirst.lab.quality_bench import FrozenCheckpoint
    from actfirst.models.folder import recipe_of, resolve_model

    settings = [text for text in texts if "=" in text]
    names = [text for text in texts if "=" not in text]
    if not names:
        raise ConfigError(f"name at least one model, as in `actfirst bench {command} pocket:student`")
    used = recipe or str(recipe_of(names[0]) or "pocket")
    frozen = [FrozenCheckpoint(name, resolve_model(name, "MODEL")) for name in names]
    return used, resolve(used, settings), frozen


def _show_rollout(path: Path) -> None:
    """The table of the report."""
    from actfirst.lab.report.bench_tables import rollout_table
    from actfirst.lab.rollout.result import read_rollout

    table = rollout_table((path, read_rollout(path)), 1)
    say(table.title)
    print_table(table.heads, table.texts())
    print_note(table.note)


def _show_quality(path: Path) -> None:
    from actfirst.lab.results import read_quality

    def shown(value: float | None) -> str:
        return "–" if value is None else f"{value:.1f}"

    rows = read_quality(path).rows
    print_records(
        {
            "checkpoint": row.checkpoint,
            "strategy": Strategy(row.strategy).label,
            "repeat (%)": shown(row.repeat),
            "successes per 100": f"{row.per_100:.2f}",
            "turns": f"{row.turns:.2f}",
            "SR (%)": f"{row.success:.1f}",
            "valid (%)": f"{row.valid:.1f}",
            "parsed (%)": shown(row.parsed),
            "tokens per fast action": shown(row.fast_tokens),
            "first action aligned (%)": shown(row.first_action),
            "fully aligned (%)": shown(row.full_trajectory),
        }
        for row in rows
    )
    modes = [
        {
            "checkpoint": row.checkpoint,
            "strategy": Strategy(row.strategy).label,
            "mode of fast actions": mode.replace("_", " "),
            "fast actions": f"{fast.asked:,}",
            "parsed (%)": f"{fast.parsed:.1f}",
            "tokens each": f"{fast.tokens:.1f}",
        }
        for row in rows
        for mode, fast in row.modes.items()
    ]
    if modes:
        print_records(modes)


app.command("rollout")(rollout)
app.command("quality")(quality)
app.command("stages")(stages)
app.command("distance")(distance)
app.command("gigpo")(gigpo)
app.command("envs")(bench_envs.envs)
app.command("storing")(bench_storing.storing)
app.command("weight-check")(bench_storing.weight_check)
app.command("sync")(bench_speed.sync)
app.command("checkpoint")(bench_gpu.checkpoint)
app.command("budget")(bench_gpu.budget)
app.command("learner")(bench_gpu.learner)
app.command("driver")(bench_gpu.driver)
app.command("turns")(bench_gpu.turns)
app.command("rollout-options")(bench_speed.rollout_options)
app.command("scale")(bench_speed.scale)
app.command("limits")(bench_speed.limits)
app.command("prompts")(bench_speed.prompts)
app.command("update")(bench_speed.update)
app.command("general")(bench_speed.general)
app.command("startup")(bench_engines.startup)
app.command("engines")(bench_engines.engines)
app.command("decoding")(bench_engines.decoding)
