"""What models, servers and files say is shown, never obeyed; what they call themselves never becomes a link."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from actfirst.cli.console import print_error, print_table
from actfirst.config.load import resolve
from actfirst.errors import ConfigError, EngineError
from actfirst.lab.report.cells import Table as ReportTable
from actfirst.lab.report.cells import Words, in_markdown
from actfirst.lab.report.page import SourceRegister
from actfirst.terminal.console import Console
from actfirst.terminal.visible import say, visible

CLIPBOARD = "\x1b]52;c;cm0gLXJmIH4=\x07"
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


@given(st.text(st.characters()))
def test_nothing_that_a_terminal_obeys_is_left(text: str) -> None:
    shown = visible(text)
    assert not CONTROLS.search(shown)
    shown.encode()
    assert visible(shown) == shown


def test_signs_stand_where_control_characters_stood() -> None:
    assert visible(f"a{CLIPBOARD}b\x9b2J\x7f") == "a\u241b]52;c;cm0gLXJmIH4=\u2407b<9b>2J\u2421"
    assert visible("caf\u00e9 \U0001f44d\n\tx\r\ny") == "caf\u00e9 \U0001f44d\n\tx\ny"
    assert visible("abc\u202e\ud800") == "abc<202e><d800>"


def test_the_console_shows_them_in_everything_that_it_draws() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100, color_system="standard")
    table = Table("head " + CLIPBOARD)
    table.add_row(Text("cell \x1b[2J", "red"))
    for drawn in (f"line {CLIPBOARD}", Text("text \x1b]0;title\x07"), Panel("inside \x9b2J"), table):
        console.print(drawn, markup=False) if isinstance(drawn, str) else console.print(drawn)
    shown = out.getvalue()
    own = re.sub(r"\x1b\[[\d;]*m", "", shown)  # rich's own colours
    assert "\x1b[" in shown
    assert not CONTROLS.search(own)
    assert own.count("\u241b") == 4


def test_plain_lines_and_errors_show_them(capsys: pytest.CaptureFixture[str]) -> None:
    say("observation", CLIPBOARD)
    print_table(["task"], [["\x1b[2J"]])
    print_error(f"the server said {CLIPBOARD}")
    told = capsys.readouterr()
    assert not CONTROLS.search(told.out + told.err)
    assert "\u241b" in told.err


class TestReports:
    def test_a_folder_cannot_be_called_a_link_that_runs(self, tmp_path: Path) -> None:
        register = SourceRegister(tmp_path / "report")
        (tmp_path / "report").mkdir()
        address = register.relative(tmp_path / "report" / "javascript:alert(1)" / "x")
        assert address == "javascript%3Aalert%281%29/x"
        assert register.relative(tmp_path / "lab" / "a-1") == "../lab/a-1"

    def test_markdown_in_a_name_stays_text(self) -> None:
        name = "[x](javascript:1) <b>|`a`\n# head ![i](u)"
        assert in_markdown(name) == r"\[x\](javascript:1) &lt;b>\|\`a\` # head !\[i\](u)"
        table = ReportTable("slug", name, name, (name, "n"), ((Words(name), Words("1")),)).to_markdown()
        assert not re.search(r"(?<!\\)\[|<b>|(?<!\\)`", table)
        assert {line.count(" | ") for line in table.splitlines() if line.startswith("|")} == {1}


class TestSecrets:
    ADDRESS = "http://me:hunter2@localhost:8000"

    @pytest.mark.parametrize(
        "override",
        [f'teacher.server.urls=["{ADDRESS}"]', f"runtime.address={ADDRESS}", f'models.teacher="{ADDRESS}"'],
    )
    def test_a_password_in_an_address_is_refused_without_showing_it(self, override: str) -> None:
        with pytest.raises(ConfigError, match="holds a password inside an address") as told:
            resolve("pocket", [override])
        assert "hunter2" not in str(told.value)

    def test_a_key_behind_a_question_mark_is_refused_without_showing_it(self) -> None:
        with pytest.raises(ConfigError, match="plain addresses") as told:
            resolve("pocket", ['teacher.server.urls=["http://localhost?api_key=hunter2"]'])
        assert "hunter2" not in str(told.value)

    def test_a_wrong_value_is_shown_without_its_password(self) -> None:
        with pytest.raises(ConfigError, match=r"\*\*\*@localhost") as told:
            resolve("pocket", [f'run.updates="{self.ADDRESS}"'])
        assert "hunter2" not in str(told.value)

    def test_no_error_of_ours_shows_one(self) -> None:
        assert (
            str(EngineError(f"no answer from {self.ADDRESS}/v1"))
            == "no answer from http://***@localhost:8000/v1"
        )
        assert str(EngineError("a@b.org: at 10:30")) == "a@b.org: at 10:30"
