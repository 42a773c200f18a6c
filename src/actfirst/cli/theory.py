"""`actfirst theory`: what the paper's analysis says of given or measured latencies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import check_result_file, print_note, print_table, write_result

if TYPE_CHECKING:
    from actfirst.lab.theory import Latencies, Prediction

_TURNS, _TASKS = 30, 16


def theory(
    fast: Annotated[
        float | None, typer.Option(help="Latency of a fast action, in any unit (prefill and decoding).")
    ] = None,
    full: Annotated[float | None, typer.Option(help="Latency of a full response, in the same unit.")] = None,
    measured: Annotated[
        Path | None,
        typer.Option("--from", help="A result of `actfirst bench rollout`: its calibrated latencies are used."),
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Turns of a rollout, T.")] = _TURNS,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of a batch, N.")] = _TASKS,
    cap: Annotated[
        int | None, typer.Option(min=1, help="Cap on concurrent requests, b_max. Default: a few of them.")
    ] = None,
    json_file: Annotated[
        Path | None,
        typer.Option("--json", help="Write the result to this file.", callback=check_result_file),
    ] = None,
) -> None:
    """Idealized speedup, its limit, and what a cap on concurrent requests leaves of it.

    \b
    actfirst theory --fast 0.12 --full 3.2
    actfirst theory --fast 0.12 --full 3.2 --turns 15 --cap 64
    actfirst theory --from runs/bench/rollout-pocket.json
    """
    from actfirst.lab.theory import predict

    rows: list[list[str]] = []
    found: list[dict[str, object]] = []
    for name, latencies in _latencies(fast, full, measured).items():
        caps = [cap] if cap is not None else [tasks, 2 * tasks, 4 * tasks, 8 * tasks, 16 * tasks, None]
        for one in caps:
            prediction = predict(turns, tasks, one, latencies)
            rows.append(_row(name, prediction))
            found.append(_json(name, latencies, prediction))
    print_table(["response", "cap", "ideal", "limit", "bound", "least time", "cap needed", "may gain"], rows)
    print_note(
        "ideal: S(T) with unlimited concurrency; limit: as T grows; bound: with the cap, if vanilla runs at its ideal "
        "pace; least time: no ActFirst batch is faster; cap needed: at or below it nothing can be gained"
    )
    write_result(json_file, {"turns": turns, "tasks": tasks, "predictions": found})


def _latencies(fast: float | None, full: float | None, measured: Path | None) -> dict[str, Latencies]:
    from actfirst.errors import ConfigError
    from actfirst.lab.stored import BENCH_ROLLOUT
    from actfirst.lab.theory import Latencies

    if measured is None:
        if fast is None or full is None:
            raise ConfigError("give --fast and --full, or --from with a result of `actfirst bench rollout`")
        return {"given": Latencies(fast, full)}
    if fast is not None or full is not None:
        raise ConfigError("--from takes latencies from a result; leave --fast and --full out")
    try:
        data = json.loads(measured.read_text(encoding="utf-8"))
        found = data["calibration"] if data["kind"] == BENCH_ROLLOUT else None
    except (OSError, ValueError, KeyError, TypeError):
        found = None
    if found is None:
        raise ConfigError(f"--from {measured} is no result of `actfirst bench rollout`; name such a file")
    label = "simulated" if data["simulated"] else "measured"
    return {
        f"{tokens} tokens, {label}": Latencies(found["fast"], value) for tokens, value in found["full"].items()
    }


def _row(name: str, found: Prediction) -> list[str]:
    return [
        name,
        "none" if found.cap is None else str(found.cap),
        f"{found.ideal:.2f}",
        f"{found.limit:.2f}",
        f"{found.limited:.2f}",
        f"{found.bound_seconds:.4g}",
        f"{found.needed_cap:.1f}",
        "yes" if found.may_gain else "no",
    ]


def _json(name: str, latencies: Latencies, found: Prediction) -> dict[str, object]:
    return {
        "response": name,
        "fast": latencies.fast,
        "full": latencies.full,
        "cap": found.cap,
        "ideal": found.ideal,
        "limit": found.limit,
        "bound": found.limited,
        "vanilla_seconds": found.vanilla_seconds,
        "actfirst_seconds": found.actfirst_seconds,
        "least_seconds": found.bound_seconds,
        "needed_cap": found.needed_cap,
        "may_gain": found.may_gain,
    }
