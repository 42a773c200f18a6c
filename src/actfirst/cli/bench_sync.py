"""`actfirst bench sync`: from the end of an update to the first token sampled with the new weights."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actfirst.cli.console import print_note, print_table

if TYPE_CHECKING:
    from actfirst.lab.bench_sync import SyncTiming

_RESULT = Path("runs") / "bench" / "sync.json"


class EngineKind(StrEnum):
    """Engines that take weights."""

    EMBEDDED = "embedded"
    VLLM = "vllm"


class RuntimeKind(StrEnum):
    """Where learner and engine live."""

    LOCAL = "local"
    RAY = "ray"


def sync(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings that replace the pocket recipe's.")
    ] = None,
    engine: Annotated[list[EngineKind] | None, typer.Option(help="May be repeated. Default: embedded.")] = None,
    runtime: Annotated[list[RuntimeKind] | None, typer.Option(help="May be repeated. Default: local.")] = None,
    sizes: Annotated[int, typer.Option(min=2, max=4, help="How many model sizes, from the smallest.")] = 3,
    repeats: Annotated[int, typer.Option(min=1, help="Updates that are timed at each size.")] = 5,
    out: Annotated[Path, typer.Option("--out", help="The result file.")] = _RESULT,
) -> None:
    """Time weight synchronisation for random models of growing size, and check that the new weights are in use.

    \b
    actfirst bench sync
    actfirst bench sync --runtime local --runtime ray --sizes 4
    actfirst bench sync --engine vllm engine.vllm.enforce_eager=true
    actfirst bench sync --runtime ray runtime.rollout_engines=2 runtime.weight_sync=collective
    """
    from tempfile import TemporaryDirectory

    from actfirst.config.load import resolve
    from actfirst.lab.bench_sync import SIZES, growth, measure, to_json
    from actfirst.lab.stored import store

    combinations = [
        resolve("pocket", [*(overrides or []), f"engine.kind={kind}", f"runtime.kind={where}"])
        for kind in engine or [EngineKind.EMBEDDED]
        for where in runtime or [RuntimeKind.LOCAL]
    ]
    timings: list[SyncTiming] = []
    notes: list[str] = []
    for config in combinations:
        with TemporaryDirectory() as scratch:
            found = measure(config, SIZES[:sizes], repeats, Path(scratch), _say)
        timings += found
        notes.append(
            f"{config.engine.kind} engine, {config.runtime.kind} runtime: "
            f"{growth(found) * 1e3:.0f} ms for each further 100 million parameters"
        )
    _show(timings)
    for note in notes:
        print(note)
    store(out, "bench-sync", {"timings": to_json(timings)})
    print_note(f"result: {out}")


def _say(timing: SyncTiming) -> None:
    print_note(
        f"{timing.engine}, {timing.runtime}, {timing.parameters / 1e6:.1f} M: {timing.seconds * 1e3:.0f} ms"
    )


def _show(timings: list[SyncTiming]) -> None:
    print_table(
        [
            "engine",
            "runtime",
            "parameters (M)",
            "weights (ms)",
            "first token (ms)",
            "in all (ms)",
            "log-prob error",
        ],
        [
            [
                timing.engine,
                timing.runtime,
                f"{timing.parameters / 1e6:.2f}",
                f"{timing.announce_seconds * 1e3:.1f}",
                f"{timing.token_seconds * 1e3:.1f}",
                f"{timing.seconds * 1e3:.1f}",
                f"{timing.logprob_error:.1g}",
            ]
            for timing in timings
        ],
    )
