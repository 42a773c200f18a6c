"""What others wrote is read in one way: every fault is one error of ours, every text can be used everywhere."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from actfirst.errors import ConfigError
from actfirst.reading import (
    MOST_DEPTH,
    Unreadable,
    clean,
    next_value,
    parse_json,
    parse_object,
    parse_toml,
    read_object,
    unpacked,
    unpacked_gzip,
)
from actfirst.records import Observation, TurnContext
from actfirst.runs import files

LARGE = 400_000
"""Characters: work that grows with the square of this takes hours, work that grows with it no time worth naming."""


class TestTheTextGate:
    @given(st.text(st.characters()))
    def test_what_comes_out_can_be_written_and_tokenised(self, text: str) -> None:
        out = clean(text)
        assert "\0" not in out
        out.encode()
        assert len(out) == len(text)
        assert clean(out) is out

    def test_half_a_pair_and_nul_are_replaced_and_nothing_else(self) -> None:
        assert clean("cup \ud83d of\0tea") == "cup \ufffd of\ufffdtea"
        assert clean("\x1b[31m caf\u00e9 \U0001f44d\r\n\t") == "\x1b[31m caf\u00e9 \U0001f44d\r\n\t"

    def test_whatever_an_environment_says_passes_it(self) -> None:
        seen = Observation("a \ud83d", ("click[\udc00]",), ("t\0",), ("o\ud800",))
        assert seen == Observation("a \ufffd", ("click[\ufffd]",), ("t\ufffd",), ("o\ufffd",))
        assert TurnContext("buy \ud83d", (), seen, 1).instruction == "buy \ufffd"

    def test_every_error_of_ours_can_be_written(self) -> None:
        """A library puts what it read into its own message, and that becomes part of ours."""
        assert str(ConfigError("model type \ud83d")) == "model type \ufffd"

    def test_an_environment_that_says_no_text_at_all_fails_where_it_says_it(self) -> None:
        with pytest.raises(TypeError):
            Observation(None, ())  # type: ignore[arg-type]

    def test_no_text_can_break_a_file_of_lines(self, tmp_path: Path) -> None:
        path = tmp_path / "lines.jsonl"
        files.append_whole(path, files.json_line({"task": "folder \udcff", "text": "nul \0"}))
        assert list(files.read_json_lines(path)) == [{"task": "folder \ufffd", "text": "nul \ufffd"}]


JSON_FAULTS = {
    "deep": ("[" * 100_000, "deeper than 64"),
    "deep and closed": ("[" * 500 + "]" * 500, "deeper than 64"),
    "deep objects": ('{"a":' * 70 + "1" + "}" * 70, "deeper than 64"),
    "an endless integer": ("[-1" + "0" * 400 + "]", "too large"),
    "an integer beyond Python's own limit": ("1" * 5000, "too large"),
    "an endless float": ("[1e400]", "too large"),
    "NaN": ("[NaN]", "NaN is no number"),
    "Infinity": ("-Infinity", "Infinity is no number"),
    "the same key twice": ('{"a": 1, "b": {"k": 1, "k": 2}}', "'k' stands twice"),
    "no JSON": ("<html>", "no JSON.*line 1"),
    "nothing": ("", "no JSON"),
    "half": ('{"a": [1,', "no JSON"),
}


class TestJson:
    @pytest.mark.parametrize("fault", JSON_FAULTS)
    def test_every_fault_is_one_error_that_names_the_cause(self, fault: str) -> None:
        text, cause = JSON_FAULTS[fault]
        for data in (text, text.encode()):
            with pytest.raises(Unreadable, match=cause):
                parse_json(data)

    def test_bytes_must_be_utf8(self) -> None:
        with pytest.raises(Unreadable, match="no UTF-8 at byte 1"):
            parse_json(b'"\xff"')
        with pytest.raises(Unreadable, match="no UTF-8"):
            parse_json('{"a": 1}'.encode("utf-16"))
        assert parse_json(b'\xef\xbb\xbf{"a": 1}') == {"a": 1}

    def test_size_and_type_are_bounded(self, tmp_path: Path) -> None:
        with pytest.raises(Unreadable, match="more than the 10"):
            parse_json("[1, 2, 3, 4, 5]", most=10)
        for text, kind in (("[]", "a list"), ("1", "a number"), ('"x"', "a text"), ("null", "null")):
            with pytest.raises(Unreadable, match=f"{kind} where an object"):
                parse_object(text)
        (tmp_path / "large").write_bytes(b" " * 100)
        for path, cause in (
            (tmp_path / "large", "more than the 50"),
            (tmp_path, "directory"),
            (tmp_path / "no", "No"),
        ):
            with pytest.raises(Unreadable, match=cause):
                read_object(path, most=50)

    def test_brackets_in_texts_have_no_depth(self) -> None:
        text = json.dumps(["[" * 500, 'quote " and \\ and [' * 50, {"{": "}"}])
        assert parse_json(text) == json.loads(text)
        nested: object = "end"
        for _ in range(MOST_DEPTH):
            nested = [nested]
        assert parse_json(json.dumps(nested)) == nested

    @given(
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-(2**100), 2**100)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
            lambda inner: (
                st.lists(inner)
                | st.dictionaries(
                    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), inner
                )
            ),
            max_leaves=40,
        ),
        st.booleans(),
    )
    def test_what_is_no_fault_is_read_as_it_stands(self, value: object, ascii: bool) -> None:
        text = json.dumps(value, ensure_ascii=ascii)
        assert parse_json(text) == parse_json(text.encode()) == value
        assert next_value(f"  {text}  ", 2) == (value, 2 + len(text))

    def test_escaped_halves_of_pairs_pass_the_gate_and_whole_pairs_stay(self) -> None:
        assert parse_json(r'{"\ud83d": ["\udc4d", "\u0000", "\ud83d\udc4d"]}') == {
            "\ufffd": ["\ufffd", "\ufffd", "\U0001f44d"]
        }

    @pytest.mark.parametrize(
        "text",
        ['"' + '\\"' * LARGE, "[" * LARGE, '["' + "[" * LARGE, "1" * LARGE, '{"a":"' * LARGE, '"\\' * LARGE],
    )
    def test_work_grows_with_the_length_only(self, text: str) -> None:
        with pytest.raises(Unreadable):
            parse_json(text)


class TestToml:
    @pytest.mark.parametrize(
        ("text", "cause"),
        [
            ("x = " + "[" * 5000, "deeper than 64"),
            ("x = " + "{a=" * 100 + "1" + "}" * 100, "deeper than 64"),
            (".".join("a" * 100_000) + " = 1", "more than 64 parts"),
            ('"a" . ' * 100 + "b = 1", "more than 64 parts"),
            ("x = " + "9" * 400, "too large"),
            ("x = " + "9" * 5000, "digits"),
            ("x = ", "end of document"),
            ("a = 1\na = 2", "overwrite"),
            ("x = 1 # " + "y" * 300_000, "more than the"),
            ('x = "\udcff"', "surrogate"),
            ("x = 2020-13-99", "line 1|month"),
        ],
    )
    def test_every_fault_is_one_error_that_names_the_cause(self, text: str, cause: str) -> None:
        with pytest.raises(Unreadable, match=cause):
            parse_toml(text)

    def test_what_people_write_is_read(self) -> None:
        assert parse_toml('a.b = 1\n[c]\nd = ["x", 2.5]\ne = inf') == {
            "a": {"b": 1},
            "c": {"d": ["x", 2.5], "e": math.inf},
        }

    def test_work_grows_with_the_length_only(self) -> None:
        assert parse_toml("a" * 200_000 + " = 1")
        with pytest.raises(Unreadable):
            parse_toml('"' * 200_001)


class TestUnpacking:
    @pytest.mark.parametrize("pack", [gzip.compress, bz2.compress, lzma.compress])
    def test_bombs_are_noticed_while_they_unpack(self, pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
        path = tmp_path / "data"
        path.write_bytes(pack(b"one ") + pack(b"two"))
        assert unpacked(path) == b"one two"
        path.write_bytes(pack(b"\0" * 5_000_000))
        with pytest.raises(Unreadable, match="unpacks to more than the 100000"):
            unpacked(path, most=100_000)
        path.write_bytes(pack(b"some text" * 100)[:-5])
        with pytest.raises(Unreadable, match="ends too early"):
            unpacked(path)
        path.write_bytes(pack(b"some text" * 100)[:12] + b"something else entirely" * 9)
        with pytest.raises(Unreadable, match=r"cannot be unpacked|ends too early"):
            unpacked(path)

    def test_an_answer_that_was_packed(self) -> None:
        assert unpacked_gzip(gzip.compress(b"yes"), 100) == b"yes"
        with pytest.raises(Unreadable):
            unpacked_gzip(b"no", 100)


def test_plain_files_are_given_as_they_are(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"[1]")
    assert unpacked(tmp_path / "plain") == b"[1]"
