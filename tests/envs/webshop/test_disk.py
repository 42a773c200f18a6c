"""A catalogue that is indexed on disk gives the same shop as one in memory."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actfirst.envs.webshop import disk, world
from actfirst.envs.webshop.catalogue import Catalogue, CatalogueFiles, find_files, read_catalogue
from actfirst.envs.webshop.disk import indexed_catalogue, open_catalogue
from actfirst.envs.webshop.sample_maker import make_sample
from actfirst.envs.webshop.synthetic import measure_scale, write_catalogue
from actfirst.errors import EnvironmentFailure


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CatalogueFiles:
    """The sample catalogue as the three files of a download."""
    folder = tmp_path_factory.mktemp("catalogue")
    sample = make_sample()
    for name, part in (
        ("items_shuffle", "items"),
        ("items_ins_v2", "annotations"),
        ("items_human_ins", "human"),
    ):
        (folder / f"{name}.json").write_text(json.dumps(sample[part]))
    return find_files(folder)


@pytest.fixture(scope="module")
def stored(files: CatalogueFiles, tmp_path_factory: pytest.TempPathFactory) -> Catalogue:
    return indexed_catalogue(files, tmp_path_factory.mktemp("place") / "index")


@pytest.fixture(scope="module")
def in_memory(files: CatalogueFiles) -> Catalogue:
    return read_catalogue(files)


class TestSameShop:
    def test_products(self, stored: Catalogue, in_memory: Catalogue) -> None:
        assert len(stored.shelf) == len(in_memory.shelf) == 280
        assert all(stored.shelf[at] == in_memory.shelf[at] for at in range(280))
        assert stored.fingerprint == in_memory.fingerprint

    def test_prices(self, stored: Catalogue, in_memory: Catalogue) -> None:
        asins = [in_memory.shelf[at].asin for at in range(280)]
        assert [stored.price(asin) for asin in asins] == [in_memory.price(asin) for asin in asins]
        with pytest.raises(KeyError):
            stored.price("B0")

    def test_searches(self, stored: Catalogue, in_memory: Catalogue) -> None:
        for query in ("red shirt", "steel mug 0.5 l", "machine wash", "", "nothing"):
            assert stored.search(query) == in_memory.search(query)

    def test_labels(self, stored: Catalogue, in_memory: Catalogue) -> None:
        assert stored.shelf.of_category("home") == in_memory.shelf.of_category("home") != []
        assert stored.shelf.of_query("mugs") == in_memory.shelf.of_query("mugs") != []
        assert stored.shelf.of_query("no such query") == []

    def test_goals(self, stored: Catalogue, in_memory: Catalogue) -> None:
        assert list(stored.goals("human")) == list(in_memory.goals("human"))
        assert stored.goals("synthetic")[:300] == in_memory.goals("synthetic")[:300]
        assert len(stored.goals("synthetic")) == len(in_memory.goals("synthetic"))


class TestBuilding:
    def test_it_is_built_once_and_shows_progress(self, files: CatalogueFiles, tmp_path: Path) -> None:
        seen: list[tuple[str, int]] = []
        indexed_catalogue(files, tmp_path / "index", progress=lambda what, count: seen.append((what, count)))
        assert ("reading attributes", 280) in seen
        assert ("indexing", 280) in seen
        seen.clear()
        indexed_catalogue(files, tmp_path / "index", progress=lambda what, count: seen.append((what, count)))
        assert seen == []

    def test_an_unfinished_build_is_not_used_and_does_no_harm(
        self, files: CatalogueFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def fail(what: str, count: int) -> None:
            if (what, count) == ("indexing", 100):
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            indexed_catalogue(files, tmp_path / "index", progress=fail)
        assert not (tmp_path / "index").exists()
        assert len(indexed_catalogue(files, tmp_path / "index").shelf) == 280
        assert not (tmp_path / "index.partial").exists()

    def test_another_limit_or_format_is_built_again(
        self, files: CatalogueFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        indexed_catalogue(files, tmp_path / "index")
        assert len(indexed_catalogue(files, tmp_path / "index", limit=20).shelf) == 20
        built = (tmp_path / "index" / "meta.json").stat().st_mtime_ns
        monkeypatch.setattr(disk, "FORMAT", 99)
        indexed_catalogue(files, tmp_path / "index", limit=20)
        assert (tmp_path / "index" / "meta.json").stat().st_mtime_ns > built

    def test_a_folder_that_cannot_be_written_is_named(
        self, files: CatalogueFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refuse(*arguments: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(disk, "_build", refuse)
        with pytest.raises(EnvironmentFailure, match=r"environment\.index"):
            indexed_catalogue(files, tmp_path / "index")

    def test_large_files_are_indexed_beside_themselves(
        self, files: CatalogueFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(world, "READ_INTO_MEMORY", 10)
        folder = files.items.parent
        opened = world.open_webshop(str(folder), nouns="simple")
        assert (folder / "actfirst-index" / "meta.json").is_file()
        elsewhere = world.open_webshop(str(folder), index=str(tmp_path / "mine"), nouns="simple")
        assert (tmp_path / "mine" / "meta.json").is_file()
        assert opened.fingerprint == elsewhere.fingerprint
        environment = opened.open()
        task = opened.tasks("eval")[0]
        environment.reset(task)
        for action in next(opened.solutions(task)):
            last = environment.step(action)
        assert last.done


class TestScale:
    def test_a_synthetic_catalogue_is_complete(self, tmp_path: Path) -> None:
        write_catalogue(tmp_path, 30)
        catalogue = read_catalogue(find_files(tmp_path))
        assert len(catalogue.shelf) == 30
        assert len(catalogue.goals("synthetic")) >= 30
        title = catalogue.shelf[7].title
        assert catalogue.search(title.lower())[0] == catalogue.shelf[7].asin

    @pytest.mark.slow
    def test_the_measurement_runs(self, tmp_path: Path) -> None:
        report = measure_scale(300, tmp_path)
        assert report.products == 300
        assert len(open_catalogue(tmp_path / "index").shelf) == 300
        assert 0 < report.search_median <= report.search_p95 <= report.search_worst
