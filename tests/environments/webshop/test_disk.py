"""A catalogue that is indexed on disk gives the same shop as one in memory."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import pytest

from actfirst.environments.webshop import disk, world
from actfirst.environments.webshop.catalogue import Catalogue, CatalogueFiles, find_files, read_catalogue
from actfirst.environments.webshop.disk import indexed_catalogue, open_catalogue
from actfirst.environments.webshop.oracle import oracle_candidates
from actfirst.errors import EnvironmentFailure
from tests.tools.webshop_sample import make_sample
from tests.tools.webshop_scale import measure_scale, write_catalogue


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CatalogueFiles:
    """The sample catalogue as the three files of a download."""
    return write_files(tmp_path_factory.mktemp("catalogue"))


def write_files(folder: Path) -> CatalogueFiles:
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
        assert stored.shelf.categories.positions("home") == in_memory.shelf.categories.positions("home") != []
        assert stored.shelf.queries.positions("mugs") == in_memory.shelf.queries.positions("mugs") != []
        assert stored.shelf.queries.positions("no such query") == []

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
        for action in next(oracle_candidates(opened, task)):
            last = environment.step(action)
        assert last.done


class TestChangedFiles:
    """A file that has changed is noticed without reading it, also where its size is the same."""

    @pytest.mark.parametrize("name", ["items_shuffle", "items_ins_v2", "items_human_ins"])
    def test_the_same_size_at_another_time_is_built_again(self, tmp_path: Path, name: str) -> None:
        files = write_files(tmp_path)
        indexed_catalogue(files, tmp_path / "index")
        assert disk.is_indexed(files, tmp_path / "index")
        changed = tmp_path / f"{name}.json"
        os.utime(changed, ns=(0, changed.stat().st_mtime_ns + 1))
        assert not disk.is_indexed(files, tmp_path / "index")

    def test_other_goals_of_people_are_in_the_shop_and_in_its_fingerprint(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(world, "READ_INTO_MEMORY", 10)
        files = write_files(tmp_path)
        assert files.human is not None
        opened = partial(
            world.open_webshop, str(tmp_path), goals="human", nouns="simple", splits={"train": range(20)}
        )
        before = opened()
        text = files.human.read_text()
        wish = before.goals[0].instruction.partition(", and price")[0]
        assert wish in text
        files.human.write_text(text.replace(wish, wish[::-1]))
        os.utime(files.human, ns=(0, 1))
        after = opened()
        assert after.goals[0].instruction != before.goals[0].instruction
        assert after.fingerprint != before.fingerprint


class TestOtherFolders:
    """The index never takes the place of something that is no index."""

    @pytest.mark.parametrize("name", ["work", "work.partial"])
    def test_a_folder_that_is_no_index_is_refused_and_untouched(
        self, files: CatalogueFiles, tmp_path: Path, name: str
    ) -> None:
        """Nor is the place where it is written first."""
        thesis = tmp_path / name / "thesis.txt"
        thesis.parent.mkdir()
        thesis.write_text("years")
        refused = rf"over {tmp_path / name}, which is not an index of actfirst.*environment\.index"
        with pytest.raises(EnvironmentFailure, match=refused):
            indexed_catalogue(files, tmp_path / "work")
        assert thesis.read_text() == "years"
        assert [path for path in tmp_path.iterdir() if path.suffix != ".lock"] == [thesis.parent]

    @pytest.mark.parametrize("meta", ["", "[]", "{}", '{"source": "a book"}', '{"source": {"format": 1}}'])
    def test_a_meta_json_of_somebody_else_makes_no_index(
        self, files: CatalogueFiles, tmp_path: Path, meta: str
    ) -> None:
        (tmp_path / "work").mkdir()
        (tmp_path / "work" / "meta.json").write_text(meta)
        with pytest.raises(EnvironmentFailure, match="not an index of actfirst"):
            indexed_catalogue(files, tmp_path / "work")
        assert (tmp_path / "work" / "meta.json").read_text() == meta

    @pytest.mark.parametrize("name", ["index", "index.partial"])
    def test_a_file_is_refused(self, files: CatalogueFiles, tmp_path: Path, name: str) -> None:
        (tmp_path / name).write_text("notes")
        with pytest.raises(EnvironmentFailure, match=f"over {tmp_path / name}, which is not an index"):
            indexed_catalogue(files, tmp_path / "index")
        assert (tmp_path / name).read_text() == "notes"

    def test_what_comes_while_it_is_built_is_kept(self, files: CatalogueFiles, tmp_path: Path) -> None:
        def interfere(what: str, count: int) -> None:
            if (what, count) == ("indexing", 100):
                (tmp_path / "index").mkdir()
                (tmp_path / "index" / "notes.txt").write_text("mine")

        with pytest.raises(EnvironmentFailure, match="not an index of actfirst"):
            indexed_catalogue(files, tmp_path / "index", progress=interfere)
        assert (tmp_path / "index" / "notes.txt").read_text() == "mine"

    @pytest.mark.parametrize("index", ["data", "data/..", "link"])
    @pytest.mark.parametrize("was_an_index", [False, True])
    def test_the_folder_of_the_products_and_those_around_it_are_refused(
        self, tmp_path: Path, index: str, was_an_index: bool
    ) -> None:
        (tmp_path / "data").mkdir()
        (tmp_path / "link").symlink_to("data")
        files = write_files(tmp_path / "data")
        if was_an_index:
            source = {"format": 1, "limit": None, "files": {}}
            (tmp_path / index / "meta.json").write_text(json.dumps({"source": source}))
        with pytest.raises(EnvironmentFailure, match=r"product files are in it.*environment\.index"):
            indexed_catalogue(files, tmp_path / index)
        assert all(path.is_file() for path in files.present)

    def test_an_empty_folder_will_do_also_behind_a_link(self, files: CatalogueFiles, tmp_path: Path) -> None:
        (tmp_path / "disk").mkdir()
        (tmp_path / "index").symlink_to("disk")
        assert len(indexed_catalogue(files, tmp_path / "index").shelf) == 280
        assert (tmp_path / "disk" / "meta.json").is_file()

    def test_of_a_replaced_index_nothing_is_left(self, files: CatalogueFiles, tmp_path: Path) -> None:
        indexed_catalogue(files, tmp_path / "index", limit=20)
        (tmp_path / "index" / "of_an_older_format.npy").write_bytes(b"")
        indexed_catalogue(files, tmp_path / "index")
        indexed_catalogue(files, tmp_path / "another")
        names = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("index", "another")]
        assert names[0] == names[1]


class TestScale:
    def test_a_synthetic_catalogue_is_complete(self, tmp_path: Path) -> None:
        write_catalogue(tmp_path, 30)
        catalogue = read_catalogue(find_files(tmp_path))
        assert len(catalogue.shelf) == 30
        assert len(catalogue.goals("synthetic")) >= 30
        title = catalogue.shelf[7].title
        assert catalogue.search(title.lower())[0] == catalogue.shelf[7].asin
        with pytest.raises(EnvironmentFailure, match="not written over"):
            write_catalogue(tmp_path, 3)

    @pytest.mark.slow
    def test_the_measurement_runs(self, tmp_path: Path) -> None:
        report = measure_scale(300, tmp_path)
        assert report.products == 300
        assert len(open_catalogue(tmp_path / "index").shelf) == 300
        assert 0 < report.search_median <= report.search_p95 <= report.search_worst
