"""The index of a large or growing file reads each byte once, holds no lines, and notices when a file was cut."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Mapping
from pathlib import Path

import pytest

from actfirst.errors import RunFolderError
from actfirst.runs.line_index import LineIndex, Row


def row(line: Mapping[str, object]) -> Row:
    return [line["n"]]


def write(path: Path, *numbers: int, padding: int = 0) -> None:
    with path.open("a") as file:
        for number in numbers:
            file.write(json.dumps({"n": number, "padding": "x" * padding}) + "\n")


def rows(index: LineIndex, limit: int = 1 << 30) -> list[object]:
    return [json.loads(one) for one in index.rows(0, limit)[2]]


def test_every_byte_is_read_once_however_often_somebody_asks(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    write(path, 0, 1, 2)
    index = LineIndex(path, row)
    assert [index.advance() for _ in range(3)] == [0, 0, 0]
    assert rows(index) == [[0], [1], [2]]
    assert index.bytes_read == path.stat().st_size
    write(path, 3)
    index.advance()
    assert rows(index)[-1] == [3]
    assert index.bytes_read == path.stat().st_size


def test_one_question_reads_no_more_than_its_budget_and_one_line(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    write(path, *range(100), padding=1000)
    index, before = LineIndex(path, row), 0
    while behind := index.advance(10_000):
        assert index.bytes_read - before <= 10_000 + 1100
        assert behind == path.stat().st_size - index.bytes_read
        before = index.bytes_read
    assert len(rows(index)) == 100


def test_a_line_is_read_alone(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    write(path, *range(50), padding=100)
    index = LineIndex(path, row)
    index.advance()
    before = index.bytes_read
    line = index.line(17)
    assert json.loads(line)["n"] == 17
    assert index.bytes_read - before == len(line)
    with pytest.raises(RunFolderError, match="no line 50"):
        index.line(50)
    with pytest.raises(RunFolderError):
        index.line(-1)


def test_a_line_that_is_being_written_waits_for_its_end(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    write(path, 0)
    with path.open("a") as file:
        file.write('{"n": 1')
    index = LineIndex(path, row)
    assert index.advance() == len('{"n": 1')
    assert rows(index) == [[0]]
    with path.open("a") as file:
        file.write("}\n")
    assert index.advance() == 0
    assert rows(index) == [[0], [1]]


@pytest.mark.parametrize("again", [(), (7,), (7, 8, 9, 10)], ids=["shorter", "as long", "longer"])
def test_a_file_that_was_cut_is_read_again(tmp_path: Path, again: tuple[int, ...]) -> None:
    path = tmp_path / "lines"
    write(path, 0, 1)
    index = LineIndex(path, row)
    index.advance()
    generation = index.rows(0, 1)[0]
    path.write_text("")
    write(path, 6, *again)
    index.advance()
    assert index.rows(0, 1)[0] == generation + 1
    assert rows(index) == [[6], *([number] for number in again)]


def test_what_cannot_be_read_has_a_row_that_says_so(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b'not json\n[1]\n{"m": 1}\n\xff\xfe\n{"n": 4}\n' + b"[" * 100_000 + b"\n")
    index = LineIndex(path, row)
    assert index.advance() == 0
    found = rows(index)
    assert found[4] == [4]
    assert all("unreadable" in one for place, one in enumerate(found) if place != 4)  # type: ignore[operator]


def test_a_line_that_is_too_long_is_never_held(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    write(path, 0)
    write(path, 1, padding=500_000)
    write(path, 2)
    index = LineIndex(path, row, longest=10_000)
    tracemalloc.start()
    while index.advance():
        pass
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()
    assert rows(index)[0::2] == [[0], [2]]
    assert "too many to show" in json.dumps(rows(index)[1])
    with pytest.raises(RunFolderError, match="too many"):
        index.line(1)


def test_no_file_is_no_rows(tmp_path: Path) -> None:
    index = LineIndex(tmp_path / "nothing", row)
    assert (index.advance(), rows(index)) == (0, [])
