"""Comparing two ALFWorld engines: every kind of difference is found, and a stopped comparison goes on."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest

from actfirst.config.load import resolve
from actfirst.environments.alfworld.files import SPLIT, GameFiles, game_folder, spread
from actfirst.environments.alfworld.textworld_engine import VERSIONS
from actfirst.environments.alfworld.verify import (
    PLAYING,
    GameReport,
    VerifyLog,
    compare,
    engine_versions,
    wander,
)
from actfirst.environments.comparing import Verification
from actfirst.environments.pocket.section import PocketSection
from actfirst.errors import ConfigError, EnvironmentFailure, TaskError
from actfirst.records import Observation, Task
from tests.cli.runner import run
from tests.support.tampered import TamperedFiles

SECTION = PocketSection(train_tasks=12, eval_tasks=6)


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    with game_folder(SECTION, 4) as written:
        yield written


def compared(folder: Path, how: str, steps: int = 12, workers: int = 1) -> list[GameReport]:
    games, found = GameFiles(folder, "native"), list[GameReport]()
    oracle = partial(TamperedFiles, folder, how)
    asked = Verification(steps=steps, workers=workers)
    asyncio.run(compare(games, oracle, games.tasks(SPLIT), asked, found.append))
    return sorted(found, key=lambda report: report.game)


def test_equal_engines_do_not_differ_and_every_game_is_walked_twice(folder: Path) -> None:
    reports = compared(folder, "not at all", workers=2)
    games = GameFiles(folder, "native")
    assert [report.game for report in reports] == [task.id for task in games.tasks(SPLIT)]
    assert not any(report.differences or report.error for report in reports)
    assert all(report.steps > 12 for report in reports)  # the random walk, and the walkthrough


@pytest.mark.parametrize(("how", "what"), [("text", "text"), ("order", "admissible"), ("won", "won")])
def test_every_kind_of_difference_is_found(folder: Path, how: str, what: str) -> None:
    reports = compared(folder, how)
    assert all(report.differences for report in reports)
    assert {found.what for report in reports for found in report.differences} == {what}
    most = max(
        Counter((report.game, found.walk) for report in reports for found in report.differences).values()
    )
    assert most <= 5  # afterwards a walk only repeats itself


def test_a_difference_says_where_and_what(folder: Path) -> None:
    found = compared(folder, "won")[0].differences[0]
    assert (found.walk, found.native, found.textworld) == ("walkthrough", "True", "False")
    assert found.step > 0
    assert found.command


def test_a_failure_of_one_game_is_recorded_and_the_others_go_on(folder: Path) -> None:
    reports = compared(folder, "failure")
    assert len(reports) == 4
    assert all("the planner died" in report.error for report in reports)


def test_an_oracle_that_cannot_be_opened_ends_it_at_once(folder: Path, tmp_path: Path) -> None:
    games = GameFiles(folder, "native")
    oracle = partial(GameFiles, folder, "no such engine", "too many arguments")
    work = compare(games, oracle, games.tasks(SPLIT), Verification(), lambda report: None)  # type: ignore[arg-type]
    with pytest.raises(EnvironmentFailure, match="opening the world"):
        asyncio.run(work)


def test_random_walks_hold_invalid_commands_and_depend_on_the_seed_only() -> None:
    seen = Observation("", ("go to desk 1", "look", "open drawer 1"))

    def walk(seed: int) -> list[str]:
        return list(wander(random.Random(seed), 400, lambda: seen))

    assert walk(1) == walk(1) != walk(2)
    invalid = [command for command in walk(1) if command.strip() not in (*seen.admissible, "help")]
    assert 10 < len(invalid) < 60
    assert {"dance", ""} <= set(invalid)
    assert any(command != command.strip() for command in walk(1))


def test_games_are_chosen_at_even_distances_and_by_folder() -> None:
    tasks = [Task(f"{part}/{number}", SPLIT, "game") for part in ("train", "seen") for number in range(10)]
    assert [task.id for task in spread(tasks, 4)] == ["train/0", "train/5", "seen/0", "seen/5"]
    assert len(spread(tasks, 0)) == 20
    assert {task.id.split("/")[0] for task in spread(tasks, 3, "seen")} == {"seen"}
    assert spread(tasks, 3, "nowhere") == []


def test_a_folder_without_games_and_an_unknown_game_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=r"no game\.tw-pddl below"):
        GameFiles(tmp_path, "native").tasks(SPLIT)
    with pytest.raises(TaskError, match="no game 'nowhere'"):
        GameFiles(folder, "native").open().reset(Task("nowhere", SPLIT, "game"))


class TestTheLog:
    SETTINGS: ClassVar[dict[str, object]] = {"folder": "games", "steps": 3, "seed": 0}
    VERSIONS: ClassVar[dict[str, str]] = {"native": "abc", "alfworld": "0.4.2", "textworld": "1.7.0"}

    def report(self, game: str, error: str = "") -> dict[str, object]:
        return asdict(GameReport(game, 10, (), 0.001, 0.5, error))

    def test_what_is_done_is_not_played_again(self, tmp_path: Path) -> None:
        log = VerifyLog(tmp_path / "log", self.SETTINGS, self.VERSIONS)
        log.add(self.report("a"))
        log.add(self.report("b"))
        with (tmp_path / "log").open("a") as file:
            file.write('{"game": "c", "st')  # killed while it wrote
        again = VerifyLog(tmp_path / "log", self.SETTINGS, self.VERSIONS)
        assert again.done == {"a", "b"}
        assert again.verdict().summary.startswith("2 games, 20 steps: 0 games differ")
        again.add(self.report("c"))
        assert VerifyLog(tmp_path / "log", self.SETTINGS, self.VERSIONS).done == {"a", "b", "c"}

    def test_a_game_that_could_not_be_compared_is_played_again(self, tmp_path: Path) -> None:
        log = VerifyLog(tmp_path / "log", self.SETTINGS, self.VERSIONS)
        log.add(self.report("a", "EnvironmentFailure: it hung"))
        assert not log.verdict().equal
        again = VerifyLog(tmp_path / "log", self.SETTINGS, self.VERSIONS)
        assert (again.done, again.verdict().details["games_not_compared"]) == (set(), 0)
        again.add(self.report("a"))
        assert VerifyLog(tmp_path / "log", self.SETTINGS, self.VERSIONS).verdict().equal

    def test_other_settings_are_refused(self, tmp_path: Path) -> None:
        VerifyLog(tmp_path / "log", self.SETTINGS, self.VERSIONS)
        with pytest.raises(ConfigError, match="another verification"):
            VerifyLog(tmp_path / "log", {**self.SETTINGS, "steps": 4}, self.VERSIONS)

    @pytest.mark.parametrize("other", ["native", "alfworld", "textworld"])
    def test_other_versions_are_refused(self, tmp_path: Path, other: str) -> None:
        assert not VerifyLog(tmp_path / "log", self.SETTINGS, self.VERSIONS).undated
        with pytest.raises(ConfigError, match="another verification"):
            VerifyLog(tmp_path / "log", self.SETTINGS, {**self.VERSIONS, other: "next"})

    def test_a_log_without_versions_goes_on_as_it_is_and_is_known_for_it(self, tmp_path: Path) -> None:
        VerifyLog(tmp_path / "log", self.SETTINGS, {}).add(self.report("a"))
        head = (tmp_path / "log").read_text().splitlines()[0]
        log = VerifyLog(tmp_path / "log", self.SETTINGS, self.VERSIONS)
        assert (log.undated, log.done) == (True, {"a"})
        log.add(self.report("b"))
        assert (tmp_path / "log").read_text().splitlines()[0] == head
        with pytest.raises(ConfigError, match="another verification"):
            VerifyLog(tmp_path / "log", {**self.SETTINGS, "seed": 1}, self.VERSIONS)


class TestVersions:
    def test_they_are_of_the_native_source_and_of_the_packages_of_the_workers(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here, there = engine_versions(""), engine_versions(sys.executable)
        assert here == there
        assert set(here) == {"native", *VERSIONS}
        monkeypatch.setattr("actfirst.environments.alfworld.verify.PLAYING", ("engine",))
        assert engine_versions("")["native"] != here["native"]

    def test_all_modules_that_play_count(self) -> None:
        """What the native environment imports, as a fresh interpreter finds it."""
        show = "import sys, actfirst.environments.alfworld.environment; print(*sys.modules)"
        loaded = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True).stdout
        package = "actfirst.environments.alfworld."
        assert {name.removeprefix(package) for name in loaded.split() if name.startswith(package)} == set(
            PLAYING
        )

    def test_an_interpreter_that_cannot_say_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(EnvironmentFailure, match="correct --python"):
            engine_versions(str(tmp_path / "python"))
        bare = tmp_path / "bare"
        bare.write_text("#!/bin/sh\necho no actfirst >&2\nexit 1\n")
        bare.chmod(0o755)
        with pytest.raises(EnvironmentFailure, match=r"\(no actfirst\); install it there"):
            engine_versions(str(bare))


class TestTheCommand:
    @pytest.fixture
    def how(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """How the engine in TextWorld's place is tampered with."""
        how = ["not at all"]
        monkeypatch.setattr(
            "actfirst.environments.alfworld.verify.textworld",
            lambda folder: partial(TamperedFiles, folder, how[0]),
        )
        monkeypatch.setattr("actfirst.environments.alfworld.textworld_engine.PACKAGES", ("json",))
        monkeypatch.setattr(
            "actfirst.environments.alfworld.textworld_engine.installed_version", VERSIONS.__getitem__
        )
        return how

    def test_equal_engines_end_well(
        self, folder: Path, tmp_path: Path, how: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        log, report = str(tmp_path / "log.jsonl"), str(tmp_path / "report.json")
        call = ("envs", "verify", "alfworld", str(folder), "--steps", "5", "--log", log, "--json", report)
        shown = run(capsys, *call)
        assert shown.code == 0
        assert "4 games" in shown.out
        assert "0 games differ" in shown.out
        assert json.loads(Path(report).read_text())["equal"] is True
        again = run(capsys, *call)
        assert "4 games, 4 of them done before" in again.err
        assert "does not say" not in again.err

    def test_a_log_that_does_not_say_its_versions_goes_on_with_a_note(
        self, folder: Path, tmp_path: Path, how: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        log = tmp_path / "log.jsonl"
        settings = {"folder": str(folder), "steps": 5, "seed": 0}
        log.write_text(json.dumps({"settings": settings}) + "\n")
        shown = run(capsys, "envs", "verify", "alfworld", str(folder), "--steps", "5", "--log", str(log))
        assert shown.code == 0
        assert f"{log} does not say with which versions" in shown.err
        assert "4 games" in shown.out

    def test_a_new_log_says_its_versions(
        self, folder: Path, tmp_path: Path, how: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        log = tmp_path / "log.jsonl"
        run(capsys, "envs", "verify", "alfworld", str(folder), "--steps", "0", "--log", str(log))
        settings = json.loads(log.read_text().splitlines()[0])["settings"]
        assert settings == {"folder": str(folder), "steps": 0, "seed": 0, **engine_versions("")}
        assert {name: settings[name] for name in VERSIONS} == VERSIONS

    def test_differences_are_printed_and_decide_the_exit_code(
        self, how: list[str], capsys: pytest.CaptureFixture[str]
    ) -> None:
        how[0] = "text"
        shown = run(capsys, "envs", "verify", "alfworld", "--recipe", "pocket", "--games", "2", "--steps", "0")
        assert shown.code == 1
        assert "text differs" in shown.out
        assert "textworld: 'You picked up" in shown.out
        assert "2 games differ" in shown.out

    def test_without_textworld_the_remedy_is_named(
        self, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("actfirst.environments.alfworld.textworld_engine.PACKAGES", ("no_such_package",))
        shown = run(capsys, "envs", "verify", "alfworld", str(folder))
        assert shown.code == 1
        assert "pip install 'actfirst[textworld]'" in shown.err

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ((), "name either a folder of games or a recipe"),
            (("{folder}", "--recipe", "pocket"), "name either a folder of games or a recipe"),
            (("{folder}", "--split", "nowhere"), "leave --split out"),
            (("--recipe", "paper/webshop-0.6b"), "has no ALFWorld games"),
        ],
    )
    def test_what_cannot_be_done_is_refused(
        self,
        folder: Path,
        how: list[str],
        capsys: pytest.CaptureFixture[str],
        arguments: tuple[str, ...],
        message: str,
    ) -> None:
        given = [argument.replace("{folder}", str(folder)) for argument in arguments]
        shown = run(capsys, "envs", "verify", "alfworld", *given)
        assert shown.code == 2
        assert message in shown.err


def test_the_games_of_a_recipe_are_its_folder(tmp_path: Path) -> None:
    section = resolve("paper/alfworld-0.6b", [f"environment.folder={tmp_path}"]).environment
    with game_folder(section) as found:
        assert found == tmp_path
