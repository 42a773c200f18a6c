"""Plays the two ALFWorld engines side by side and reports every difference in what they say and allow.

Each game is walked twice: along its walkthrough, and at random with invalid commands in between. TextWorld runs in
worker processes, possibly of another interpreter; the native engine runs here and costs next to nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from functools import partial
from importlib.resources import files
from itertools import count
from pathlib import Path

from actfirst.config.runtime_sections import PoolSection
from actfirst.environments.alfworld.files import SPLIT, GameFiles, game_folder, spread
from actfirst.environments.alfworld.game import read_game_file
from actfirst.environments.alfworld.textworld_engine import installed_versions, require_textworld
from actfirst.environments.base import AsyncEnvironment, Environment, World
from actfirst.environments.comparing import Told, Verdict, Verification
from actfirst.environments.pool.pool import ProcessPool
from actfirst.errors import ActfirstError, ConfigError, EnvironmentFailure
from actfirst.reading import parse_json
from actfirst.records import Observation, Task
from actfirst.runs.files import append_whole, cut, json_line, read_json_lines, whole_size

_WEIGHTS = {
    "go": 3.0,
    "take": 5.0,
    "open": 5.0,
    "examine": 3.0,
    "move": 2.0,
    "look": 1.0,
    "inventory": 1.0,
    "close": 1.0,
}
_RARE = 6.0
"""The weight of verbs that are seldom possible: use, heat, clean, cool, slice."""

_INVALID = 0.08
_SPACED = 0.03
_ENOUGH = 5
"""Differences of one walk after which the rest only repeats the first."""

PLAYING = ("dialect", "engine", "environment", "game", "problem", "state", "wording")
"""The modules of this package that decide what the native engine says."""

_ASK = """
import json
from actfirst.environments.alfworld.textworld_engine import installed_versions
print(json.dumps(installed_versions()))
"""


@dataclass(frozen=True, slots=True)
class Difference:
    """Where the engines disagree: in the `instruction`, `text`, `admissible` list, `won`, or `state`."""

    walk: str
    step: int
    command: str
    what: str
    native: str
    textworld: str


@dataclass(frozen=True, slots=True)
class GameReport:
    """One game. `error` says why it could not be compared to the end."""

    game: str
    steps: int
    differences: tuple[Difference, ...]
    native_seconds: float
    textworld_seconds: float
    error: str = ""

    def lines(self) -> Iterator[str]:
        """What is wrong with it, for a person to read."""
        for found in self.differences:
            yield (
                f"{self.game}: {found.walk}, step {found.step}, {found.command!r}: {found.what} differs\n"
                f"  native:    {found.native!r}\n  textworld: {found.textworld!r}"
            )
        if self.error:
            yield f"{self.game}: {self.error}"


class VerifyLog:
    """Appends reports to a file, if there is one. Games that it already holds are not played again.

    What other engines found is no part of this verification, so a log of other `versions` is refused. One that says
    nothing of versions goes on, and `undated` is true: nobody knows which engines its games were played with.
    """

    def __init__(self, path: Path | None, settings: Mapping[str, object], versions: Mapping[str, str]) -> None:
        self._path = path
        self._lines: dict[str, Mapping[str, object]] = {}
        self.undated = False
        if path is None:
            return
        if path.exists():
            cut(path, whole_size(path))
        head, *lines = list(read_json_lines(path)) or [{}]
        found, given = head.get("settings"), {**settings, **versions}
        self.undated = found == dict(settings)
        if not head:
            append_whole(path, json_line({"settings": given}))
        elif found != given and not self.undated:
            raise ConfigError(
                f"{path} belongs to another verification ({found}, now {given}); "
                "continue with its settings, or name another file"
            )
        # A game that could not be compared is played again, so its newest line counts.
        newest = {str(line["game"]): line for line in lines}
        self._lines = {game: line for game, line in newest.items() if not line["error"]}

    @property
    def done(self) -> set[str]:
        """The games that were compared."""
        return {game for game, line in self._lines.items() if not line["error"]}

    def add(self, line: Mapping[str, object]) -> None:
        self._lines[str(line["game"])] = line
        if self._path is not None:
            append_whole(self._path, json_line(line))

    def verdict(self) -> Verdict:
        """Over all games, those of earlier runs included. Seconds are of steps alone."""
        lines = list(self._lines.values())
        steps = sum(int(str(line["steps"])) for line in lines)
        different, failed = (sum(bool(line[key]) for line in lines) for key in ("differences", "error"))
        native, textworld = (
            1e3 * sum(float(str(line[f"{engine}_seconds"])) for line in lines) / max(1, steps)
            for engine in ("native", "textworld")
        )
        return Verdict(
            equal=not different and not failed,
            summary=f"{len(lines)} games, {steps} steps: {different} games differ, {failed} could not be compared",
            details={
                "equal": not different and not failed,
                "games": len(lines),
                "steps": steps,
                "games_with_differences": different,
                "games_not_compared": failed,
                "native_ms_per_step": native,
                "textworld_ms_per_step": textworld,
                "findings": [dict(line) for line in lines if line["differences"] or line["error"]],
            },
        )


def verify(asked: Verification, told: Told) -> Verdict:
    """What `actfirst envs verify` does."""
    if not asked.python:
        require_textworld()
    with _games(asked) as folder:
        games = GameFiles(folder, "native")
        chosen = spread(games.tasks(SPLIT), asked.games, asked.split)
        if not chosen:
            raise ConfigError(
                f"no game below {folder} lies in a folder {asked.split}; leave --split out, or correct it"
            )
        settings = {"folder": asked.recipe or str(folder), "steps": asked.steps, "seed": asked.seed}
        log = VerifyLog(asked.log, settings, engine_versions(asked.python))
        if log.undated:
            told.note(
                f"{asked.log} does not say with which versions of the engines it was made; if they were others than "
                "now, begin another log"
            )
        left = [task for task in chosen if task.id not in log.done]
        told.note(f"{len(chosen)} games, {len(chosen) - len(left)} of them done before")
        played = count(1)

        def on_game(report: GameReport) -> None:
            log.add(asdict(report))
            for line in report.lines():
                told.difference(line)
            told.progress(next(played), len(left))

        asyncio.run(compare(games, textworld(folder), left, asked, on_game))
    return log.verdict()


def _games(asked: Verification) -> AbstractContextManager[Path]:
    """The folder that was named, or the one of a recipe."""
    if asked.folder is not None and asked.section is None:
        return nullcontext(asked.folder.expanduser())
    if asked.section is not None and asked.folder is None:
        return game_folder(asked.section, asked.games)
    raise ConfigError("name either a folder of games or a recipe, as in --recipe pocket")


def textworld(folder: Path) -> Callable[[], World]:
    return partial(GameFiles, folder, "textworld")


def engine_versions(python: str) -> dict[str, str]:
    """What decides the outcome: the source of the native engine, and the packages of the workers' interpreter."""
    source = hashlib.sha256()
    for module in PLAYING:
        source.update((files("actfirst.environments.alfworld") / f"{module}.py").read_bytes())
    packages = _asked(python) if python else installed_versions()
    return {"native": source.hexdigest()[:16], **packages}


def _asked(python: str) -> dict[str, str]:
    try:
        said = subprocess.run([Path(python).expanduser(), "-P", "-c", _ASK], capture_output=True, text=True)
    except OSError as error:
        raise EnvironmentFailure(f"cannot start {python}: {error.strerror}; correct --python") from error
    if said.returncode:
        last = said.stderr.strip().rpartition("\n")[2]
        raise EnvironmentFailure(f"{python} does not have this version of actfirst ({last}); install it there")
    versions: dict[str, str] = parse_json(said.stdout)
    return versions


async def compare(
    games: GameFiles,
    oracle: Callable[[], World],
    tasks: Sequence[Task],
    asked: Verification,
    on_game: Callable[[GameReport], None],
) -> None:
    """Compare the native engine with the oracle on every task; `on_game` is told of each game as it is done."""
    pool = ProcessPool(oracle, PoolSection(workers=asked.workers, python=asked.python, reset_seconds=300.0))
    waiting = iter(tasks)

    async def worker() -> None:
        for task in waiting:
            on_game(await _compare(games, task, asked, pool))

    try:
        async with pool.lease():
            pass  # an oracle that cannot be opened at all is not a finding of every game
        async with asyncio.TaskGroup() as group:
            for _ in range(asked.workers):
                group.create_task(worker())
    finally:
        await pool.close()


async def _compare(games: GameFiles, task: Task, asked: Verification, pool: ProcessPool) -> GameReport:
    both = _Both(games.open(), task)
    error = ""
    try:
        script = read_game_file(games.path(task)).walkthrough
        async with pool.lease() as real:
            await both.follow("walkthrough", real, lambda _: iter(script))
            rng = random.Random(f"{asked.seed} {task.id}")
            await both.follow("random walk", real, lambda seen: wander(rng, asked.steps, seen))
    except ActfirstError as failure:
        error = f"{type(failure).__name__}: {failure}"
    return GameReport(
        task.id, both.steps, tuple(both.differences), both.native_seconds, both.textworld_seconds, error
    )


class _Both:
    """The two engines on one game, in step. `latest` is the newest observation of the native one."""

    latest: Observation

    def __init__(self, native: Environment, task: Task) -> None:
        self._native = native
        self._task = task
        self.steps = 0
        self.differences: list[Difference] = []
        self.native_seconds = 0.0
        self.textworld_seconds = 0.0

    async def follow(
        self,
        walk: str,
        real: AsyncEnvironment,
        commands: Callable[[Callable[[], Observation]], Iterator[str]],
    ) -> None:
        """Play one walk. `commands` may look at the newest observation of the native engine."""
        asked, self.latest = self._native.reset(self._task)
        told, theirs = await real.reset(self._task)
        if asked != told:
            self.differences.append(Difference(walk, 0, "", "instruction", asked, told))
        found = len(self.differences)
        self._note(walk, 0, "", self.latest, theirs)
        for number, command in enumerate(commands(lambda: self.latest), start=1):
            started = time.perf_counter()
            self.latest = self._native.step(command)
            between = time.perf_counter()
            theirs = await real.step(command)
            self.native_seconds += between - started
            self.textworld_seconds += time.perf_counter() - between
            self.steps += 1
            self._note(walk, number, command, self.latest, theirs)
            if len(self.differences) - found >= _ENOUGH:
                return

    def _note(self, walk: str, step: int, command: str, ours: Observation, theirs: Observation) -> None:
        seen = (
            ("text", ours.text, theirs.text),
            ("admissible", "\n".join(ours.admissible), "\n".join(theirs.admissible)),
            ("won", str(ours.success), str(theirs.success)),
            ("state", ours.state, theirs.state),
        )
        self.differences += [
            Difference(walk, step, command, what, one, other) for what, one, other in seen if one != other
        ]


def wander(rng: random.Random, steps: int, seen: Callable[[], Observation]) -> Iterator[str]:
    """Random commands; some are invalid, some have space around them, rare verbs come as often as others."""
    for _ in range(steps):
        admissible = [*seen().admissible, "help"]
        if rng.random() < _INVALID:
            yield _nonsense(rng, admissible)
            continue
        verbs = sorted({command.split()[0] for command in admissible})
        (verb,) = rng.choices(verbs, [_WEIGHTS.get(verb, _RARE) if verb != "help" else 0.2 for verb in verbs])
        command = rng.choice([command for command in admissible if command.split()[0] == verb])
        yield f"  {command}\n" if rng.random() < _SPACED else command


def _nonsense(rng: random.Random, admissible: Sequence[str]) -> str:
    """A command that is wrong, or right by chance: gibberish, other case, another order, another object."""
    command = rng.choice(admissible)
    words = command.split()
    rng.shuffle(words)
    verb = rng.choice(("take", "open", "close", "move", "heat", "use", "examine", "go to", "slice"))
    thing = " ".join(rng.choice(admissible).split()[-2:])
    return rng.choice(("dance", "", command.upper(), " ".join(words), f"{verb} {thing}"))
