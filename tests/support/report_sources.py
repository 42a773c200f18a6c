"""Writes run folders and results that a report can be made from, with numbers that a test knows."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from actfirst.config.load import dump_toml, resolve
from actfirst.evaluate.results import Outcome, summarise
from actfirst.lab import stored
from actfirst.lab.rollout.experiment import simulate
from actfirst.lab.rollout.settings import SCALES
from actfirst.lab.rollout.simulated import LatencyModel
from tests.support.episode_lines import episode, response, turn
from tests.support.run_folders import ALIGNMENT, NO_ALIGNMENT, batch, update, write_run


def outcomes(solved: int, of: int = 4, seeds: Sequence[int] = (42, 43)) -> list[Outcome]:
    """`solved` of `of` tasks, half seen and half unseen, of two kinds; three turns when solved, eight when not."""
    return [
        Outcome(
            f"task {place}",
            "seen" if place % 2 == 0 else "unseen",
            "look" if place < of // 2 else "pick",
            seed,
            place < solved,
            100.0 * (place < solved),
            3 if place < solved else 8,
        )
        for seed in seeds
        for place in range(of)
    ]


def evaluation(solved: int) -> dict[str, object]:
    return summarise(outcomes(solved), 1.0).to_json()


def write_evaluation(path: Path, name: str, solved: int, **fields: object) -> Path:
    about = {"checkpoint": name, "environment": "pocket", "act": "think", "seeds": [42, 43]}
    stored.store(path, stored.EVALUATION, {**about, "result": evaluation(solved), **fields})
    return path


def write_method_run(
    folder: Path, method: str, seed: int, *, seconds: float, solved: int, more: Sequence[str] = ()
) -> Path:
    """A run that ends with `solved` of four tasks after `seconds`; two batches of two transitions."""
    guided = method.startswith("actfirst") and method != "actfirst-no-id"
    write_run(
        folder,
        seed=seed,
        seconds=seconds,
        curve=[(0, 0.0, 0.0)],
        alignment=ALIGNMENT if guided else NO_ALIGNMENT,
        title=f"{method} on pocket",
    )
    config = resolve("pocket", [f"rollout.method={method}", f"run.seed={seed}", *more])
    (folder / "config.toml").write_text(dump_toml(config))
    with (folder / "metrics.jsonl").open("a") as metrics:
        for line in _lines(seconds, ALIGNMENT if guided else NO_ALIGNMENT):
            metrics.write(json.dumps(line) + "\n")
    thought = response("<think>hm</think><action>look</action>", 10, 8) if method == "vanilla" else None
    turns = [turn(number, 1.0, response=thought) for number in (1, 2)]
    lines = [episode(turns, ended=0.25 * seconds), episode(turns, ended=0.5 * seconds)]
    (folder / "episodes.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    write_evaluation(
        folder / "evaluations" / "update-000008.json", method, solved, update=8, training_seconds=seconds
    )
    return folder


def _lines(seconds: float, alignment: Mapping[str, int]) -> list[dict[str, object]]:
    return [update(1, 0.5 * seconds), batch(2, alignment=alignment), update(8, seconds)]


def write_simulation(path: Path) -> Path:
    simulate(LatencyModel(), 10, SCALES["tiny"].one_batch(), path, lambda done, of, point: None)
    return path


def write_quality(path: Path) -> Path:
    rows = [
        {
            "checkpoint": name,
            "update": place,
            "strategy": strategy,
            "tasks": 10,
            "repeat": repeat,
            "yield": 2.0 + place,
            "turns": 12.0,
            "success": 30.0,
            "valid": 90.0,
        }
        for place, name in enumerate(("update 0", "update 8"))
        for strategy, repeat in (("think", 10.0), ("direct", 40.0), ("guided", 10.0))
    ]
    stored.store(path, stored.BENCH_QUALITY, {"recipe": "pocket", "tasks": 10, "seed": 42, "rows": rows})
    return path
