"""Checksums of lines: whatever is changed, swapped or taken out of the middle of a file is found, at its line."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actfirst.runs import files
from actfirst.runs.chain import ChainedFile, follow, whole_lines


def written(path: Path, count: int) -> list[bytes]:
    """A file of some lines, of two openings."""
    first = ChainedFile.at_end(path)
    for number in range(count // 2):
        first.append(files.json_line({"number": number, "text": "x" * number}))
    ChainedFile.at_end(path).append("".join(files.json_line({"number": n}) for n in range(count // 2, count)))
    return path.read_bytes().splitlines(keepends=True)


def test_a_line_is_what_it_was_with_its_checksum_as_the_last_key(tmp_path: Path) -> None:
    for line in written(tmp_path / "file", 4):
        assert list(json.loads(line))[-1] == "chain"
    assert [one["number"] for one in files.read_json_lines(tmp_path / "file")] == [0, 1, 2, 3]
    assert all("chain" not in one for one in files.read_json_lines(tmp_path / "file"))


def test_a_whole_file_is_whole_also_while_a_line_is_being_written(tmp_path: Path) -> None:
    lines = written(tmp_path / "file", 9)
    assert follow(lines) == (sum(map(len, lines)), None)
    with (tmp_path / "file").open("ab") as file:
        file.write(b'{"number": 9, "ch')
    assert follow(whole_lines(tmp_path / "file"))[1] is None


@given(place=st.integers(0, 10_000), bit=st.integers(0, 7))
def test_a_flipped_bit_is_found_at_its_line(
    place: int, bit: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("chain") / "file"
    written(path, 6)
    data = bytearray(path.read_bytes())
    place %= len(data) - 1  # without the end of the last line, it is a line that is being written
    line = data[:place].count(b"\n") + 1
    data[place] ^= 1 << bit
    path.write_bytes(data)
    whole, fault = follow(whole_lines(path))
    assert fault is not None
    # A first line that loses its checksum looks like one of an older file, until the second one counts it.
    assert fault.number == line or (line, fault.number) == (1, 2)
    assert whole <= place or line == 1


def test_any_other_order_and_any_missing_line_is_found(tmp_path: Path) -> None:
    lines = written(tmp_path / "file", 8)
    for seed in range(30):
        order = random.Random(seed).sample(lines, len(lines))
        assert (follow(order)[1] is None) == (order == lines)
    for gone in range(7):
        assert follow([*lines[:gone], *lines[gone + 1 :]])[1] is not None
