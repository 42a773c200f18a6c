"""The documentation as a reader meets it: links, pictures, samples, generated pages, the notebook, the tutorial."""

from __future__ import annotations

import ast
import importlib.util
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from actfirst.config.load import resolve
from actfirst.config.schema import known_keys
from actfirst.reading import parse_toml

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "SECURITY.md", *sorted(DOCS.rglob("*.md"))]
NOTEBOOK = ROOT / "examples" / "first_steps.ipynb"
GENERATED = {DOCS / name for name in ("reference/recipe.md", "reference/commands.md", "security.md")}
SAMPLE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def generate() -> ModuleType:
    """The hook of MkDocs, which needs no MkDocs to make its pages."""
    spec = importlib.util.spec_from_file_location("generate", DOCS / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def commands(generate: ModuleType) -> set[str]:
    return set(re.findall(r"^## `actfirst (.*)`$", generate.command_page(), re.MULTILINE))


def prose(page: Path) -> str:
    return SAMPLE.sub("", page.read_text(encoding="utf-8"))


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and MkDocs make them."""
    heads = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_pictures_lead_somewhere(page: Path) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(page)):
        if link.startswith(("https://", "mailto:")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if target in GENERATED:
            continue
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_samples_can_be_read(page: Path) -> None:
    for language, sample in SAMPLE.findall(page.read_text(encoding="utf-8")):
        if language == "python":
            ast.parse(sample)
        elif language == "toml":
            parse_toml(sample)


def actfirst_commands(text: str) -> list[list[str]]:
    """The lines of samples that call `actfirst`, as words; those with a placeholder in capitals are left out."""
    joined = "".join(sample for _, sample in SAMPLE.findall(text)).replace("\\\n", " ")
    lines = [shlex.split(line, comments=True) for line in joined.splitlines() if line.startswith("actfirst ")]
    return [words for words in lines if not any(re.search(r"\b[A-Z]{2,}\b|\[", word) for word in words[1:3])]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_that_a_page_shows_exist(page: Path, commands: set[str]) -> None:
    groups = {name.split()[0] for name in commands if " " in name}
    for words in actfirst_commands(page.read_text(encoding="utf-8")):
        named = " ".join(words[1:3]) if words[1] in groups else words[1]
        assert named in commands or named.startswith("--"), words


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_settings_that_a_page_shows_are_keys_of_recipes(page: Path) -> None:
    keys, sections = set(known_keys()), {key.split(".")[0] for key in known_keys()}
    shown = re.findall(r"(?<![\w./:-])([a-z]+(?:\.[a-z_]+)+)=[^=]", page.read_text(encoding="utf-8"))
    quoted = re.findall(r"`([a-z]+(?:\.[a-z_]+)+)(?: ?=[^`]*)?`", prose(page))
    named = [key for key in quoted if not key.endswith((".md", ".json", ".jsonl", ".py", ".toml"))]
    ours = [key for key in shown + named if key.split(".")[0] in sections - {"methods"}]  # packages add methods
    assert [
        key for key in ours if not any(f"{one}.".startswith(f"{key}.") for one in keys | {"sft.data.unlearned"})
    ] == []


class TestGeneratedPages:
    def test_every_recipe_key_is_explained(self, generate: ModuleType) -> None:
        page = generate.recipe_page()
        rows = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
        assert {key.rpartition(".")[2] for key in known_keys()} <= rows
        assert re.findall(r"^\| `(\w+)` \|.*\|  \|$", page, re.MULTILINE) == []  # each says what it means
        assert "| `updates` | a whole number above 0 | `250` | optimiser updates in all |" in page

    def test_defaults_are_those_of_the_section_that_holds_them(self, generate: ModuleType) -> None:
        rollout, evaluation = (
            generate.recipe_page().partition(f"## `[{name}.generation]`")[2]
            for name in ("rollout", "evaluation")
        )
        assert re.search(r"`temperature` .* \| `1.0` \|", rollout.partition("## ")[0])
        assert re.search(r"`temperature` .* \| `0.4` \|", evaluation.partition("## ")[0])

    def test_every_command_is_explained(self, generate: ModuleType) -> None:
        page = generate.command_page()
        for part in (
            "## `actfirst train`",
            "## `actfirst envs new`",
            "| `--resume` |",
            "actfirst train pocket\n",
        ):
            assert part in page

    def test_a_page_that_loads_something_from_outside_is_found(self, generate: ModuleType) -> None:
        found = generate._OUTSIDE.search
        assert found('<script src="https://example.org/a.js">')
        assert found('<link href="//example.org/a.css" rel="stylesheet">')
        assert not found('<script src="assets/a.js"></script> <a href="https://example.org">there</a>')


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    named = {DOCS / name for name in re.findall(r"[\w./-]+\.md", navigation)}
    assert named == set(PAGES[2:]) | GENERATED


def test_the_readme_shows_a_recipe_that_resolves_and_cites_the_paper() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "Act First, Reason Later: Accelerating On-Policy Distillation" in readme
    [compare] = [words for words in actfirst_commands(readme) if words[1] == "compare" and len(words) > 4]
    resolve("pocket", [word for word in compare[2:] if "=" in word and ":" not in word])


def test_the_notebook_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Its code cells one after the other, in one namespace, as a kernel does."""
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    sources = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]
    assert all(cell.get("outputs", []) == [] for cell in cells)
    names: dict[str, object] = {}
    for source in sources:
        exec(compile(source, NOTEBOOK.name, "exec"), names)
    shown = capsys.readouterr().out
    assert "update 2: loss" in shown
    assert "% of 1 tasks" in shown


@pytest.mark.slow
@pytest.mark.timeout(14_400)  # fifteen commands, on a machine that may be busy
def test_the_tutorial_works_from_top_to_bottom(tmp_path: Path) -> None:
    """Every command of its `sh` samples, in a folder of its own; packages are not installed into this environment."""
    page = (DOCS / "tutorial.md").read_text(encoding="utf-8")
    site = tmp_path / "site"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(site), str(ROOT / "src")])}
    samples = "".join(sample for language, sample in SAMPLE.findall(page) if language == "sh")
    commands = [shlex.split(line) for line in samples.replace("\\\n", " ").splitlines()]
    assert len(commands) > 8
    for words in commands:
        if words[:2] == ["pip", "install"]:
            words = [
                "pip",
                "install",
                "--no-deps",
                "--no-build-isolation",
                "--target",
                str(site),
                f"./{words[-1]}",
            ]
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}\n{done.stderr}"
