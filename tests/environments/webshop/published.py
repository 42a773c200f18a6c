"""The published set of 1,000 products, where a developer has it beside the repository. Never committed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from actfirst.environments.webshop.world import WebshopWorld, open_webshop

FOLDER = Path(__file__).parents[4] / "shared" / "data" / "webshop"
ABSENT = "the published products are not beside the repository (../shared/data/webshop)"


def present() -> bool:
    return (FOLDER / "items_shuffle_1000.json").is_file()


@cache
def published() -> WebshopWorld:
    """The world of the published set."""
    return open_webshop(str(FOLDER), nouns="simple")
