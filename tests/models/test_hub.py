"""Models by their name on the hub: against a scripted hub on loopback, as no real one may be needed by a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.errors import ConfigError
from actfirst.models.folder import check_model, local_model, resolve_model
from actfirst.models.hub import is_hub_id, pinned, upload
from actfirst.training.preflight import faults, pin_models
from tests.support.scripted_hub import COMMIT, ScriptedHub, direct, served

POCKET = local_model("pocket:student", "models.student")


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedHub]:
    monkeypatch.chdir(tmp_path)
    with served(ScriptedHub({"people/pocket": POCKET}, "people/gated"), tmp_path / "cache", monkeypatch) as hub:
        yield hub


def test_what_reads_like_a_name_on_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my" / "model").mkdir(parents=True)
    assert is_hub_id("Qwen/Qwen3-0.6B")
    assert is_hub_id("Qwen/Qwen3-0.6B@main")
    for name in ("my/model", "/nope", "./a", "pocket:student", "a/b/c", "model"):
        assert not is_hub_id(name), name


def test_a_model_is_fetched_once_and_its_commit_is_written_down(hub: ScriptedHub) -> None:
    assert pinned("people/pocket", "models.student") == f"people/pocket@{COMMIT}"
    folder = resolve_model(f"people/pocket@{COMMIT}", "models.student")
    assert folder.name == COMMIT
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        assert (folder / name).read_bytes() == (POCKET / name).read_bytes()
    config = pin_models(resolve("pocket", ["models.student=people/pocket"]))
    assert config.models.student == f"people/pocket@{COMMIT}"
    assert config.models.teacher == "pocket:teacher"
    fetched = [asked for asked in hub.asked if asked.startswith("GET") and asked.endswith("model.safetensors")]
    assert len(fetched) == 1


def test_a_check_downloads_nothing(hub: ScriptedHub) -> None:
    assert check_model("people/pocket", "models.student") is None
    assert not [asked for asked in hub.asked if "resolve" in asked]


def test_what_was_fetched_is_there_offline(
    hub: ScriptedHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = resolve_model("people/pocket", "models.student")
    direct(monkeypatch, "http://127.0.0.1:9", tmp_path / "cache", offline=True)
    assert pinned("people/pocket", "models.student") == f"people/pocket@{COMMIT}"
    assert resolve_model("people/pocket", "models.student") == folder
    with pytest.raises(ConfigError, match="hf download people/other"):
        resolve_model("people/other", "models.student")


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("people/gated", "accept them on the page of people/gated"),
        ("people/nobody", "correct the name, or log in"),
        ("people/pocket@nope", "no revision 'nope'"),
    ],
)
def test_a_refusal_says_what_helps(name: str, remedy: str, hub: ScriptedHub) -> None:
    for ask in (pinned, resolve_model):
        with pytest.raises(ConfigError, match=remedy):
            ask(name, "models.student")


def test_no_connection_says_what_helps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    direct(monkeypatch, "http://127.0.0.1:9", tmp_path)
    with pytest.raises(ConfigError, match="the hub cannot be asked"):
        pinned("people/pocket", "models.student")


def test_every_fault_of_a_recipe_is_found_before_anything_starts(hub: ScriptedHub, tmp_path: Path) -> None:
    assert faults(resolve("pocket")) == []
    found = faults(
        resolve(
            "pocket",
            [
                "models.student=/nope",
                "models.teacher=people/nobody",
                f"references.path={tmp_path / 'no.jsonl'}",
                "pool.python=/no/python",
                "pool.kind=processes",
            ],
        )
    )
    assert len(found) == 3
    for fault, named in zip(found, ("/nope", "/no/python", "no.jsonl"), strict=True):
        assert named in fault
    assert "people/nobody" in found[0]


def test_a_folder_is_uploaded_whole(hub: ScriptedHub, tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "README.md").write_text("# card")
    (folder / "model.safetensors").write_bytes(b"weights")
    upload(folder, "me/student", private=True, message="After 3 updates")
    assert hub.created == ["me/student"]
    assert hub.uploaded == {"README.md": b"# card", "model.safetensors": b"weights"}
    with pytest.raises(ConfigError, match="OWNER/NAME"):
        upload(folder, "student", private=False, message="")
