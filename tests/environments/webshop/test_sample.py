"""The catalogue in the package is what its generator makes, and small."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from actfirst.environments.webshop.catalogue import sample_catalogue
from tests.tools.webshop_sample import make_sample, write_sample

FILE = files("actfirst.environments.webshop") / "sample.json"


def test_the_file_is_the_generators(tmp_path: Path) -> None:
    write_sample(tmp_path / "sample.json")
    assert (tmp_path / "sample.json").read_text() == FILE.read_text()
    assert json.loads(FILE.read_text()) == make_sample()


def test_it_is_small_but_has_the_papers_number_of_goals() -> None:
    assert len(FILE.read_bytes()) < 200_000
    assert len(sample_catalogue().goals("synthetic")) >= 4196


def test_products_vary() -> None:
    shelf = sample_catalogue().shelf
    products = [shelf[at] for at in range(len(shelf))]
    assert {len(product.options) for product in products} == {0, 2}
    assert {len(product.pricing) for product in products} == {1, 2}
    assert any("|" in value for product in products for _, values in product.options for value in values)
