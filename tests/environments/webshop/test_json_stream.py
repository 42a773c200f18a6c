"""Large JSON files, entry by entry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actfirst.environments.webshop import json_stream
from actfirst.environments.webshop.catalogue import find_files, read_catalogue
from actfirst.environments.webshop.json_stream import stream_list, stream_object
from actfirst.errors import EnvironmentFailure
from tests.environments.webshop.shop import ITEM, session

ENTRIES: list[Any] = [
    {"a": [1, {"b": "}]"}]},
    'text, with " and ]',
    12345,
    -1.5e10,
    None,
    True,
    [],
    {},
    "\u00e9",
]


@pytest.fixture(params=[1, 2, 7, 1 << 20], ids=lambda size: f"window-{size}")
def _window(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_stream, "_CHUNK", request.param)


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.usefixtures("_window")
class TestStreams:
    @pytest.mark.parametrize("indent", [None, 2])
    def test_lists(self, tmp_path: Path, indent: int | None) -> None:
        path = write(tmp_path / "list.json", json.dumps(ENTRIES, indent=indent, ensure_ascii=False))
        assert list(stream_list(path)) == ENTRIES

    def test_objects(self, tmp_path: Path) -> None:
        value = {f"key {number}": entry for number, entry in enumerate(ENTRIES)}
        assert dict(stream_object(write(tmp_path / "o.json", json.dumps(value, indent=1)))) == value

    def test_empty_ones(self, tmp_path: Path) -> None:
        assert list(stream_list(write(tmp_path / "l.json", " [ ] "))) == []
        assert list(stream_object(write(tmp_path / "o.json", "{}"))) == []

    @pytest.mark.parametrize("text", ["", "[1, 2", '[{"a": 1', "{}", "[1, oops]"])
    def test_a_broken_file_is_named(self, tmp_path: Path, text: str) -> None:
        with pytest.raises(EnvironmentFailure, match=r"broken\.json is no complete JSON file"):
            list(stream_list(write(tmp_path / "broken.json", text)))


class TestWhatOthersWrote:
    @pytest.mark.parametrize(
        ("text", "cause"),
        [
            (b"[" * 100_000, "nested deeper"),
            (b'[{"a": 1' + b"0" * 400 + b"}]", "too large"),
            (b"[1e999]", "too large"),
            (b'["\xff"]', "no UTF-8"),
            (b"[1, 2", "ends too early|Expecting"),
        ],
    )
    def test_every_fault_names_the_file(self, text: bytes, cause: str, tmp_path: Path) -> None:
        path = tmp_path / "items.json"
        path.write_bytes(text)
        with pytest.raises(EnvironmentFailure, match=rf"items\.json.*({cause})"):
            list(stream_list(path))

    def test_half_a_pair_in_a_title_is_no_trouble_on_any_page(self, tmp_path: Path) -> None:
        """Titles and options that were cut inside an emoji."""
        items = [{**ITEM, "name": "Cup \ud83d", "customization_options": {"Color": [{"value": "red \ud83d"}]}}]
        write(tmp_path / "items_shuffle.json", json.dumps(items))
        write(
            tmp_path / "items_ins_v2.json",
            json.dumps({"B1": {"attributes": ["x"], "instruction": "buy \ud83d"}}),
        )
        catalogue = read_catalogue(find_files(tmp_path))
        shopper = session(catalogue.shelf[0])
        for action in ("search[cup]", "click[b1]", "click[red \ufffd]"):
            shopper.step(action)
            shopper.observation.encode()
        assert "Cup \ufffd" in shopper.observation
