"""Run folders for the viewer's tests, with everything that a page can show and text that must stay text.

As a command it writes a lab for the browser suite: python -m tests.view.made_runs FOLDER
"""

from __future__ import annotations

import json
import math
import random
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

NASTY = "<script>window.pwned = 1</script><img src=x onerror='window.pwned = 1'>"
CONTROL = "\x00\x07\x1b[31mred\x7f\u202eright to left"
LONG = "x" * 1_000_000
KINDS = ("clean", "cool", "heat", "look", "pick", "pick2")
METHODS = ("actfirst", "vanilla", "tcod_f2b", "without_id", "replay_50")


def write_lines(path: Path, lines: Iterable[Mapping[str, object]]) -> None:
    with path.open("a", encoding="utf-8") as file:
        for line in lines:
            file.write(json.dumps(line) + "\n")


def make_run(
    folder: Path,
    *,
    method: str = "actfirst",
    seed: int = 1,
    updates: int = 24,
    finished: bool = True,
    whole: bool = True,
    text: str = "",
) -> Path:
    """A run of `updates` updates. Without `whole` it holds what older versions wrote. `text` stands in an episode."""
    draw = random.Random(seed)
    folder.mkdir(parents=True)
    config = (
        f'[run]\nseed = {seed}\nupdates = {updates}\n[environment]\nname = "pocket"\n[models]\nstudent = "s"\n'
        f'teacher = "t"\n[rollout]\nmethod = "{method}"\n'
    )
    (folder / "config.toml").write_text(config)
    write_lines(folder / "metrics.jsonl", metrics(draw, updates))
    episodes = [episode(draw, batch, number, whole) for batch in range(updates // 2) for number in range(8)]
    if text:
        episodes[0]["turns"][0]["observation"] = text
        episodes[0]["turns"][0]["action"] = text
        episodes[0]["task"]["id"] = text
        episodes[0]["final_observation"] = text
    write_lines(folder / "episodes.jsonl", episodes)
    if whole:
        write_lines(folder / "responses.jsonl", responses(draw, episodes, text))
        evaluated = [
            {**episode(draw, 0, number, whole), "who": "student", "update": 0, "seed": 42}
            for number in range(8)
        ]
        later = [
            {**episode(draw, 0, number, whole), "who": "student", "update": updates, "seed": 42}
            for number in range(8)
        ]
        write_lines(folder / "evaluation-episodes.jsonl", [*evaluated, *later])
    (folder / "log.txt").write_text(
        "2026-01-01 10:00:00 started at update 0 of 24\n2026-01-01 10:00:09 checkpoint\n"
    )
    if finished:
        (folder / "summary.json").write_text("{}")
    return folder


def metrics(draw: random.Random, updates: int) -> Iterable[dict[str, object]]:
    yield {"type": "evaluation", "who": "teacher", "update": 0, "training_seconds": 0.0, "success_rate": 95.0}
    speed = draw.uniform(4, 9)
    for update in range(updates + 1):
        now = speed * update
        learnt = 1 - math.exp(-update / 9)
        if update % 6 == 0:
            rate = round(10 + 75 * learnt + draw.uniform(-4, 4), 1)
            yield {
                "type": "evaluation",
                "who": "student",
                "update": update,
                "training_seconds": now,
                "success_rate": rate,
            }
        if update % 2 == 0:
            first = round(16 * (0.6 + 0.35 * learnt))
            alignment = {
                "guided": 16,
                "first_aligned": first,
                "fully_aligned": first // 2,
                "aligned_turns": 9 * first,
                "turns": 180,
            }
            engine = {"running": draw.randrange(8), "waiting": draw.randrange(20)}
            yield {
                "type": "batch",
                "batch": update // 2,
                "version": update,
                "training_seconds": now,
                "episodes": 16,
                "succeeded": round(16 * (0.3 + 0.6 * learnt)),
                "failed": 0,
                "alignment": alignment,
                "seconds": speed,
                "transitions": 180 + draw.randrange(40),
                "fast_tokens": 900,
                "full_tokens": 4000 + draw.randrange(900),
                "full_responses": 64,
                "scoring_seconds": 0.4,
                "student_engine": engine,
            }
        if update:
            stages = {
                "start-up": 2.0,
                "rollout": 0.55 * now,
                "update": 0.3 * now,
                "sync": 0.02 * now,
                "evaluation": 4.0 + update,
            }
            ledger = {
                "generated": 64 * update,
                "trained": 50 * update,
                "buffered": 64,
                "discarded": {"stale": 14 * update - 64},
            }
            yield {
                "type": "update",
                "update": update,
                "training_seconds": now,
                "stages": stages,
                "ledger": ledger,
                "mean_lag": 0.5,
                "max_lag": 1,
                "loss": round(0.5 * math.exp(-update / 12), 4),
                "grad_norm": 1.0 + draw.random(),
                "reverse_kl": round(0.6 * math.exp(-update / 8) + 0.05, 4),
                "clip_fraction": 0.01 * draw.random(),
                "sample_ids": ["b00000-000/1"] * 32,
            }


def episode(draw: random.Random, batch: int, number: int, whole: bool) -> dict[str, object]:
    kind = KINDS[number % len(KINDS)]
    count = draw.randrange(4, 12)
    diverged = draw.choice([0, 0, 2, 3])
    turns: list[dict[str, object]] = []
    clock = 0.0
    for turn in range(1, count + 1):
        guided = diverged == 0 or turn <= diverged
        verdict = "unchecked" if not guided else "diverged" if turn == diverged else "aligned"
        seconds = round(draw.uniform(0.05, 0.2), 3)
        line: dict[str, object] = {
            "number": turn,
            "observation": f"You arrive at drawer {turn}. The drawer {turn} is closed.",
            "action": f"open drawer {turn}",
            "valid": draw.random() > 0.1,
            "source": "inverse_dynamics" if guided else "next_action",
            "verdict": verdict,
            "state": f"{draw.randrange(9):016x}",
            "seconds": seconds,
            "requests": [
                {
                    "mode": "inverse_dynamics" if guided else "next_action",
                    "prompt_tokens": 120,
                    "tokens": 5,
                    "text": f"<action>open drawer {turn}</action>",
                    "action": f"open drawer {turn}",
                    "version": 2 * batch,
                }
            ],
            "response": None,
        }
        if whole:
            line["started"] = round(clock, 3)
            line["admissible"] = [f"open drawer {place}" for place in range(1, 9)] + ["look", "inventory"]
            line["reference_next"] = (
                f"You open the drawer {turn}. In it, you see a key {turn}." if guided else None
            )
            if verdict == "diverged":
                line["reference_admissible"] = [
                    *(f"open drawer {place}" for place in range(1, 9)),
                    f"take key {turn}",
                ]
            if turn % 2:
                text = f"<think>A key may be in drawer {turn}.</think><action>open drawer {turn}</action>"
                line["response"] = {
                    "prompt_tokens": 150,
                    "tokens": 24,
                    "generated_tokens": 20,
                    "text": text,
                    "action": f"open drawer {turn}",
                    "truncated": False,
                    "stop_reason": "eos",
                    "requests": 1,
                    "version": 2 * batch,
                    "started": round(clock + 0.01, 3),
                    "ended": round(clock + draw.uniform(0.3, 0.6), 3),
                }
        clock += seconds
        turns.append(line)
    return {
        "id": f"b{batch:05d}-{number:03d}",
        "batch": batch,
        "task": {"id": f"pocket/train/{(batch * 8 + number) % 40:06d}-{kind}", "split": "train", "kind": kind},
        "success": draw.random() < 0.6,
        "score": float(draw.randrange(0, 101)),
        "guided": True,
        "reference_length": count,
        "error": "the environment stopped answering" if draw.random() < 0.03 else None,
        "attempts": 1,
        "seconds": round(clock, 3),
        "ended": batch * 10.0,
        "final_observation": "You put the key in the safe.",
        "final_admissible": ["look"],
        "turns": turns,
    }


def responses(draw: random.Random, episodes: list[dict[str, object]], text: str) -> Iterable[dict[str, object]]:
    words = [
        "<think>",
        "A",
        " key",
        " may",
        " be",
        " in",
        " the",
        " drawer",
        ".",
        "</think>",
        "<action>",
        "open",
        "</action>",
    ]
    for place, one in enumerate(episodes):
        for turn in one["turns"]:  # type: ignore[attr-defined]
            if turn["response"] is None:
                continue
            nasty = text if place == 0 else ""
            tokens = [*words, nasty] if nasty else words
            student = [round(-draw.expovariate(3), 4) for _ in tokens]
            teacher = [round(-draw.expovariate(1.2), 4) for _ in tokens]
            mask = [0 if token == "</think>" else 1 for token in tokens]
            yield {
                "sample": f"{one['id']}/{turn['number']}",
                "episode": one["id"],
                "turn": turn["number"],
                "update": place // 8 + 1,
                "version": place // 8,
                "prompt": f"Your task is to find a key. {nasty}",
                "token_texts": tokens,
                "mask": mask,
                "student": student,
                "teacher": teacher,
                "alternatives": [[["open", -0.1], [" look", -2.4]] for _ in tokens],
                "advantages": [round(b - a, 4) if kept else 0.0 for a, b, kept in zip(student, teacher, mask)],
            }


def make_lab(folder: Path) -> None:
    """Thirty runs: some finished, one crashed, one that an older version wrote, one with text that must stay text."""
    for number in range(30):
        make_run(
            folder / "lab" / f"{METHODS[number % 5]}-{number // 5}",
            method=METHODS[number % 5],
            seed=number // 5,
            finished=number != 7,
            whole=number != 11,
        )
    make_run(folder / "finished", seed=3)
    make_run(folder / "crashed", seed=4, updates=9, finished=False)
    make_run(folder / "nasty", seed=5, text=NASTY + CONTROL + LONG)


if __name__ == "__main__":
    make_lab(Path(sys.argv[1]))
