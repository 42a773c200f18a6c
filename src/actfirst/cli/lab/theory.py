"""`actfirst theory`: what the paper's analysis predicts for given or measured latencies."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import print_note, print_records, write_result
from actfirst.cli.options import ResultFile

if TYPE_CHECKING:
    from actfirst.lab.theory import Latencies


def theory(
    fast: Annotated[float | None, typer.Option(help="Latency of a fast action, in any unit.")] = None,
    full: Annotated[float | None, typer.Option(help="Latency of a full response, in the same unit.")] = None,
    measured: Annotated[
        Path | None, typer.Option("--from", help="Use latencies of this `bench rollout`.")
    ] = None,
    turns: Annotated[int, typer.Option(min=1, help="Turns of a rollout, T.")] = 30,
    tasks: Annotated[int, typer.Option(min=1, help="Tasks of a batch, N.")] = 16,
    cap: Annotated[int | None, typer.Option(min=1, help="Cap on requests, b_max. Default: several.")] = None,
    json_file: ResultFile = None,
) -> None:
    """Idealized speedup, its limit, and how much of it a cap on concurrent requests allows.

    \b
    actfirst theory --fast 0.12 --full 3.2
    actfirst theory --fast 0.12 --full 3.2 --turns 15 --cap 64
    actfirst theory --from runs/bench/rollout-pocket.json
    """
    from actfirst.lab.theory import predict

    caps = [cap] if cap is not None else [tasks, 2 * tasks, 4 * tasks, 8 * tasks, 16 * tasks, None]
    found = [
        (name, latencies, predict(turns, tasks, one, latencies))
        for name, latencies in _latencies(fast, full, measured).items()
        for one in caps
    ]
    print_records(
        {
            "response": name,
            "cap": "none" if one.cap is None else str(one.cap),
            "ideal": f"{one.ideal:.2f}",
            "limit": f"{one.limit:.2f}",
            "bound": f"{one.bound:.2f}",
            "least time": f"{one.least_seconds:.4g}",
            "cap needed": f"{one.needed_cap:.1f}",
            "may gain": "yes" if one.may_gain else "no",
        }
        for name, _, one in found
    )
    print_note(
        "ideal: S(T) with unlimited concurrency; limit: as T grows; bound: with the cap, if vanilla runs at its ideal "
        "pace; least time: no ActFirst batch is faster; cap needed: at or below it nothing can be gained"
    )
    predictions = [{"response": name, **asdict(latencies), **asdict(one)} for name, latencies, one in found]
    write_result(json_file, {"turns": turns, "tasks": tasks, "predictions": predictions})


def _latencies(fast: float | None, full: float | None, measured: Path | None) -> dict[str, Latencies]:
    from actfirst.errors import ConfigError, RunFolderError
    from actfirst.lab.rollout.result import read_rollout
    from actfirst.lab.theory import Latencies

    if measured is None:
        if fast is None or full is None:
            raise ConfigError("give --fast and --full, or --from with a result of `actfirst bench rollout`")
        return {"given": Latencies(fast, full)}
    if fast is not None or full is not None:
        raise ConfigError("--from takes latencies from a result; leave --fast and --full out")
    try:
        found = read_rollout(measured)
        calibration = found.calibration
    except RunFolderError:
        calibration = None
    if calibration is None:
        raise ConfigError(f"--from {measured} is not a result of `actfirst bench rollout`; name such a file")
    label = "simulated" if found.simulated else "measured"
    return {
        f"{tokens} tokens, {label}": Latencies(calibration.fast, seconds)
        for tokens, seconds in calibration.full.items()
    }
