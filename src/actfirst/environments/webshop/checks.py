"""WebShop: the catalogue in the package, the product files of the paper's recipes, and the noun tagger."""

from __future__ import annotations

import time
from pathlib import Path

from actfirst.environments.findings import Check, Finding, State
from actfirst.environments.webshop.catalogue import find_files
from actfirst.environments.webshop.nouns import SPACY_INSTALL, SPACY_MODEL, has_spacy

FOLDER = "data/webshop"
"""Where the paper's recipes look."""

_REINSTALL = "pip install --force-reinstall actfirst"
_DOWNLOAD = (
    "run `setup.sh -d small` (1,000 products) or `setup.sh -d all` of the WebShop repository and put the files of its "
    f"data folder into {FOLDER}, or name their folder: environment.folder=FOLDER"
)


def sample() -> Finding:
    """The shop that needs no download; a search shows that its pages can be made."""
    from actfirst.environments.webshop.world import open_webshop

    started = time.perf_counter()
    world = open_webshop(nouns="simple")
    environment = world.open()
    instruction, _ = environment.reset(world.tasks("train")[0])
    found = len(environment.step(f"search[{instruction}]").admissible)
    took = time.perf_counter() - started
    detail = f"sample catalogue: {len(world.shop.shelf):,} products, {len(world.goals):,} goals, "
    return Finding("WebShop", State.OK, f"{detail}a search offers {found} actions; all in {took:.1f} s")


def products() -> Finding:
    """A set that fits in memory is opened, and one that is indexed; nothing is indexed here, which takes minutes."""
    from actfirst.environments.webshop.disk import is_indexed, open_catalogue
    from actfirst.environments.webshop.world import fits_in_memory, index_place, open_folder

    name = "WebShop products"
    if not Path(FOLDER).is_dir():
        return Finding(name, State.MISSING, f"no folder {FOLDER} (for the paper's recipes)", _DOWNLOAD)
    files = find_files(Path(FOLDER))
    index = index_place(FOLDER)
    if fits_in_memory(FOLDER):
        detail = f"{files.items}: {len(open_folder(FOLDER).shelf):,} products, read into memory"
    elif is_indexed(files, index):
        detail = f"{files.items}: {len(open_catalogue(index).shelf):,} products, indexed in {index}"
    else:
        detail = f"{files.items}: to be indexed in {index}, once, when it is first used"
    if files.human is None:
        missing = "items_human_ins.json is missing: there are no goals that people wrote"
        return Finding(name, State.WARN, f"{detail}; {missing}", _DOWNLOAD)
    return Finding(name, State.OK, detail)


def nouns() -> Finding:
    """The noun tagger of the reward that the paper's recipes need."""
    if not has_spacy():
        detail = (
            f"no spaCy with {SPACY_MODEL} (for the paper's recipes); environment.nouns = 'simple' does without"
        )
        return Finding("WebShop nouns", State.MISSING, detail, SPACY_INSTALL)
    return Finding("WebShop nouns", State.OK, f"spaCy's {SPACY_MODEL}")


CHECKS = (
    Check("WebShop", sample, _REINSTALL, State.WARN),
    Check("WebShop products", products, _DOWNLOAD, State.WARN),
    Check("WebShop nouns", nouns, SPACY_INSTALL, State.WARN),
)
