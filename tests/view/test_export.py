"""The pages as files: everything that the server would answer, as scripts that hand over text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from actfirst.errors import ConfigError
from actfirst.view.catalogue import Catalogue
from actfirst.view.export import export
from tests.view.made_runs import CONTROL, NASTY, make_run


def handed_over(path: Path) -> object:
    found = re.fullmatch(r'actfirstPut\("([^"]+)", (".*")\);\n', path.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    assert found[1] == path.stem
    return json.loads(json.loads(found[2]))


def test_every_answer_is_a_file(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", updates=4, text=NASTY + CONTROL)
    export(Catalogue([run]), tmp_path / "pages", newest=1000)
    data = tmp_path / "pages" / "data"
    assert 'content="files"' in (tmp_path / "pages" / "index.html").read_text()
    assert {"app.js", "style.css"} <= {path.name for path in (tmp_path / "pages").iterdir()}
    runs = handed_over(data / "runs.js")
    assert isinstance(runs, list)
    assert runs[0]["state"] == "finished"
    rows = handed_over(data / "rows-0-episodes-0.js")
    assert isinstance(rows, dict)
    assert rows["total"] == len(rows["rows"]) == len(list(data.glob("line-0-episodes-*.js"))) == 16
    line = handed_over(data / "line-0-episodes-0.js")
    assert isinstance(line, dict)
    assert line["turns"][0]["observation"] == NASTY + CONTROL


def test_only_the_newest_lines_are_kept_whole(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", updates=4)
    export(Catalogue([run]), tmp_path / "pages", newest=2)
    kept = {path.name for path in (tmp_path / "pages" / "data").glob("line-0-episodes-*.js")}
    assert kept == {"line-0-episodes-14.js", "line-0-episodes-15.js"}


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", updates=4)
    with pytest.raises(ConfigError, match="not empty"):
        export(Catalogue([run]), run, newest=1)
