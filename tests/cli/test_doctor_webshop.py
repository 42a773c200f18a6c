"""`actfirst doctor` on WebShop: the sample, the product files, the index, the noun tagger."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actfirst.cli.doctor.environments import environment_checks
from actfirst.config.load import resolve
from actfirst.environments.findings import Finding, State, examine
from actfirst.environments.webshop import checks as webshop
from actfirst.environments.webshop import world
from tests.tools.webshop_sample import make_sample


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def folder() -> Path:
    """The sample as a download lays it out, in the place where the recipes look."""
    folder = Path(webshop.FOLDER)
    folder.mkdir(parents=True)
    sample = make_sample()
    for name, part in (("shuffle", "items"), ("ins_v2", "annotations"), ("human_ins", "human")):
        (folder / f"items_{name}.json").write_text(json.dumps(sample[part]))
    return folder


def products() -> Finding:
    (finding,) = examine([check for check in webshop.CHECKS if check.name == "WebShop products"])
    return finding


def test_doctor_runs_these_checks() -> None:
    assert set(webshop.CHECKS) <= set(environment_checks())


def test_it_looks_where_the_papers_recipes_look() -> None:
    section = resolve("paper/webshop-1.7b").environment
    assert section.model_dump()["folder"] == webshop.FOLDER


def test_the_sample_needs_nothing() -> None:
    finding = webshop.sample()
    assert finding.state is State.OK
    assert "280 products" in finding.detail


class TestProducts:
    def test_without_files_it_is_said_how_to_get_them(self) -> None:
        finding = products()
        assert finding.state is State.MISSING
        assert "data/webshop" in finding.detail
        assert "setup.sh -d small" in finding.remedy

    def test_a_folder_without_products_is_a_warning_with_the_remedy(self) -> None:
        Path(webshop.FOLDER).mkdir(parents=True)
        finding = products()
        assert finding.state is State.WARN
        assert "items_shuffle.json" in finding.detail
        assert "setup.sh -d small" in finding.remedy

    def test_a_small_set_is_opened(self, folder: Path) -> None:
        finding = products()
        assert finding.state is State.OK, finding
        assert "280 products, read into memory" in finding.detail

    def test_goals_of_people_are_missed(self, folder: Path) -> None:
        (folder / "items_human_ins.json").unlink()
        finding = products()
        assert finding.state is State.WARN
        assert "items_human_ins.json" in finding.detail
        assert "setup.sh" in finding.remedy

    def test_a_large_set_is_not_indexed_here_and_opened_where_it_is(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(world, "READ_INTO_MEMORY", 10)
        finding = products()
        assert finding.state is State.OK
        assert "to be indexed in data/webshop/actfirst-index" in finding.detail
        assert not (folder / "actfirst-index").exists()
        world.open_folder(str(folder))
        assert "280 products, indexed in data/webshop/actfirst-index" in products().detail


class TestNouns:
    def test_what_is_missing_is_named_with_the_command_that_installs_it(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(webshop, "has_spacy", lambda: False)
        finding = webshop.nouns()
        assert finding.state is State.MISSING
        assert "simple" in finding.detail
        assert finding.remedy == "pip install 'actfirst[spacy]', then python -m spacy download en_core_web_sm"

    def test_a_model_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(webshop, "has_spacy", lambda: True)
        assert webshop.nouns() == Finding("WebShop nouns", State.OK, "spaCy's en_core_web_sm")
