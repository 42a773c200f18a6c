"""`actfirst view`: prints an address that opens, or writes pages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import HTTPCookieProcessor, build_opener, urlopen

import pytest

from tests.view.made_runs import make_run


def test_the_address_that_it_prints_opens_the_pages(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", updates=2)
    command = [sys.executable, "-m", "actfirst", "view", str(run)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as viewer:
        try:
            assert viewer.stdout
            address = viewer.stdout.readline().strip()
            page = build_opener(HTTPCookieProcessor()).open(address, timeout=120)
            assert b"app.js" in page.read()
            with pytest.raises(HTTPError, match="403"):
                urlopen(address.partition("?")[0], timeout=120)
        finally:
            viewer.terminate()


def test_export_writes_pages_and_ends(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", updates=2)
    pages = tmp_path / "pages"
    command = [sys.executable, "-m", "actfirst", "view", str(run), "--export", str(pages), "--newest", "3"]
    subprocess.run(command, check=True, timeout=300)
    assert (pages / "index.html").is_file()
    assert len(list((pages / "data").glob("line-0-episodes-*"))) == 3


def test_a_folder_without_runs_is_an_error_that_says_what_to_name(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "actfirst", "view", str(tmp_path)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 2
    assert "config.toml" in result.stderr
