"""`actfirst references build|verify|show` on pocket houses."""

from __future__ import annotations

import json
import resource
from pathlib import Path

import pytest

from actfirst.runs import files
from actfirst.runs.chain import Chain
from tests.cli.runner import run
from tests.cli.tiny_recipe import write_tiny_recipe
from tests.support.tiny_models import make_tiny_checkpoint

FEW = ("environment.train_tasks=12",)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def store(capsys: pytest.CaptureFixture[str]) -> str:
    run(capsys, "references", "build", "pocket", "store.jsonl", *FEW, "--sources", "walkthrough")
    return "store.jsonl"


def rewrite(store: str, place: int, old: str, new: str) -> None:
    """Another text in one line of a store, as if it had been written so: all checksums are right."""
    lines = list(map(files.json_line, files.read_json_lines(Path(store))))
    assert old in lines[place]
    lines[place] = lines[place].replace(old, new)
    chain = Chain()
    Path(store).write_bytes(b"".join(chain.add(line.encode()) for line in lines))


def test_build_says_what_is_covered_and_shows_progress(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "references", "build", "pocket", "some/store.jsonl", *FEW, "--json", "out.json")
    assert shown.code == 0
    assert "12 of 12 tasks, 12 new references" in shown.err
    assert "12 of 12 tasks have a reference (12 attempted), 12 successful" in shown.out
    assert "sources: expert 12" in shown.out, "the recipe's references.source"
    assert json.loads(Path("out.json").read_text())["overall"]["covered"] == 12
    again = run(capsys, "references", "build", "pocket", "some/store.jsonl", *FEW)
    assert "12 of 12 tasks, 0 new references" in again.err


def test_build_of_a_few_tasks(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(
        capsys, "references", "build", "pocket", "store.jsonl", *FEW, "--per-kind", "1", "--sources", "best"
    )
    assert "6 of 12 tasks have a reference" in shown.out
    shown = run(capsys, "references", "build", "pocket", "other.jsonl", *FEW, "--only", "000003")
    assert "1 of 12 tasks have a reference" in shown.out
    nothing = run(capsys, "references", "build", "pocket", "third.jsonl", *FEW, "--only", "nowhere")
    assert (nothing.code, Path("third.jsonl").exists()) == (2, False)
    assert "no task of pocket/train has 'nowhere' in its id" in nothing.err


def test_build_refuses_a_source_that_the_world_does_not_have(capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "references", "build", "pocket", "store.jsonl", *FEW, "--sources", "best,gold")
    assert shown.code == 2
    assert "it has walkthrough, solver, expert" in shown.err


def test_build_from_the_rollouts_of_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    recipe, model = str(write_tiny_recipe(Path())), str(make_tiny_checkpoint(Path("tiny")))
    shown = run(
        capsys, "references", "build", recipe, "store.jsonl", *FEW, "--per-kind", "1", "--sources", "none",
        "--teacher", model, "--rollouts", "2",
    )  # fmt: skip
    assert shown.code == 0
    assert "12 of 12 rollouts, by tiny" in shown.err
    (kept,) = Path().glob("store.jsonl.rollouts-tiny-????????.jsonl")
    assert len(kept.read_text().splitlines()) == 12
    assert "0 of 12 tasks have a reference (6 attempted)" in shown.out, "a random model solves nothing"


def test_two_teachers_of_one_name_keep_their_rollouts_apart(capsys: pytest.CaptureFixture[str]) -> None:
    recipe = str(write_tiny_recipe(Path()))
    for place in ("one", "two"):
        make_tiny_checkpoint(Path(place, "model"))
    command = ("references", "build", recipe, "store.jsonl", *FEW, "--only", "000003", "--sources", "none",
               "--rollouts", "1", "--teacher", "one/model", "--teacher", "./two/model/")  # fmt: skip
    shown = run(capsys, *command)
    assert shown.code == 0, shown.err
    assert len(list(Path().glob("store.jsonl.rollouts-model-*.jsonl"))) == 2
    assert run(capsys, *command[:-1], "two/model").code == 0, "another way of writing the same folder"
    assert len(list(Path().glob("store.jsonl.rollouts-model-*.jsonl"))) == 2
    told = run(capsys, "references", "show", "store.jsonl", "000003").out
    assert told.count("teacher:model-") == 2


def test_verify_counts_by_kind(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "references", "verify", "pocket", store, *FEW, "--json", "out.json")
    assert shown.code == 0
    assert shown.out.startswith(
        "12 of 12 tasks that count pass every check on every turn; of 12 tasks, 0 have no"
    )
    assert shown.out.splitlines()[-2].split()[:5] == ["all", "12", "12", "12", "100.00"]
    assert json.loads(Path("out.json").read_text())["percent"] == 100.0


def test_verify_counts_tasks_without_a_reference_unless_a_part_is_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    run(capsys, "references", "build", "pocket", "store.jsonl", *FEW, "--per-kind", "1")
    shown = run(capsys, "references", "verify", "pocket", "store.jsonl", *FEW)
    assert shown.code == 1
    assert "of 12 tasks, 6 have no reference and 0 an unreliable one" in shown.out
    assert "50.00 % is less than --at-least 99" in shown.err
    assert run(capsys, "references", "verify", "pocket", "store.jsonl", *FEW, "--per-kind", "1").code == 0


def test_build_and_verify_say_how_long_they_took(capsys: pytest.CaptureFixture[str]) -> None:
    """The time of worker processes counts: they are children of this process that were waited for."""
    for command, workers in (("build", "1"), ("verify", "0")):
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        shown = run(
            capsys,
            "references",
            command,
            "pocket",
            "store.jsonl",
            *FEW,
            "--workers",
            workers,
            "--json",
            "out.json",
        )
        said = json.loads(Path("out.json").read_text())
        assert f"{said['processor_seconds']:.1f} s of processor time, workers included, in " in shown.out
        of_workers = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
        assert (of_workers > 0) == (workers == "1")
        assert said["processor_seconds"] >= round(of_workers, 2) - 0.01
        assert said["seconds"] > 0


def test_a_store_that_is_continued_with_more_tasks_counts_them(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    more = run(capsys, "references", "build", "pocket", store, "environment.train_tasks=20", "--per-kind", "3")
    assert "18 of 20 tasks have a reference" in more.out
    assert "18 of 20 tasks have a reference" in run(capsys, "references", "show", store).out


def test_show_says_which_kinds_are_too_long_or_below_full_score(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for header in (0, -1):
        rewrite(store, header, '"turn_limit":30', '"turn_limit":1')
    rewrite(store, 1, '"score":100.0}}', '"score":40.0}}')
    shown = run(capsys, "references", "show", store).out
    assert "more than 1 actions: 12 (" in shown
    assert "below full score: 1 (pick 1)" in shown


def test_verify_fails_below_the_share_that_is_asked_for(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    rewrite(store, 5, '"text":"You ', '"text":"They ')
    shown = run(capsys, "references", "verify", "pocket", store, *FEW)
    assert shown.code == 1
    assert "91.67 % is less than --at-least 99" in shown.err
    assert "pocket/train/000004" in shown.err
    assert "1 x observation differs" in shown.out
    assert run(capsys, "references", "verify", "pocket", store, *FEW, "--at-least", "90").code == 0


def test_another_configuration_is_refused_with_what_differs(
    store: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = run(capsys, "references", "verify", "pocket", store, "environment.seed=3")
    assert shown.code == 1
    assert "environment.seed is 0 there and 3 here" in shown.err


def test_show_covers_the_file_or_tells_one_task(store: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = run(capsys, "references", "show", store)
    assert "environment.train_tasks = 12" in whole.out
    assert "sources: walkthrough 12" in whole.out
    one = run(capsys, "references", "show", store, "000003", "--json", "out.json")
    assert "actions by walkthrough, score 100" in one.out
    assert "\n1> go to " in one.out
    assert json.loads(Path("out.json").read_text())["task_id"].startswith("pocket/train/000003")


@pytest.mark.parametrize(
    ("part", "fault"), [("0000", "has 12 tasks whose id holds"), ("x", "has no task whose id holds")]
)
def test_show_asks_for_one_task(part: str, fault: str, store: str, capsys: pytest.CaptureFixture[str]) -> None:
    shown = run(capsys, "references", "show", store, part)
    assert shown.code == 2
    assert fault in shown.err
