"""The template files are the paper's listings (appendix "Prompt Details"), character by character."""

from __future__ import annotations

import hashlib
import re
from importlib.resources import files
from pathlib import Path

import pytest

from actfirst.policy.thinking_budget import early_stop
from actfirst.records import Mode
from tests.support.kinds import TEMPLATE_SETS

PAPER = Path(__file__).resolve().parents[3] / "shared" / "paper" / "actfirst-opd.tex"
TITLES = {
    Mode.FULL: "Full-response generation",
    Mode.NEXT_ACTION: "Next-action prediction",
    Mode.INVERSE_DYNAMICS: "Reference-conditioned inverse dynamics",
}
BENCHMARKS = {"alfworld": "ALFWorld", "webshop": "WebShop", "scienceworld": "ScienceWorld"}
HASHES = {
    "alfworld/full.txt": "ee2de3875a7b6dd5",
    "alfworld/full_no_history.txt": "e51c2b9e57e424d1",
    "alfworld/inverse_dynamics.txt": "2921d6d192e86bc5",
    "alfworld/inverse_dynamics_no_history.txt": "2d1652f29cdbe403",
    "alfworld/next_action.txt": "f9b0147d1ce7cd8f",
    "alfworld/next_action_no_history.txt": "324041b770b3b2d6",
    "scienceworld/full.txt": "b14ae8864eb81619",
    "scienceworld/full_no_history.txt": "e39cdb63deda0225",
    "scienceworld/inverse_dynamics.txt": "171198fcfe522991",
    "scienceworld/inverse_dynamics_no_history.txt": "3795eb7cb2345c94",
    "scienceworld/next_action.txt": "a11e45b23d7bc85e",
    "scienceworld/next_action_no_history.txt": "abe94428462ab8e3",
    "webshop/full.txt": "180b34c624157fe9",
    "webshop/full_no_history.txt": "19fc0a21dcb203de",
    "webshop/inverse_dynamics.txt": "14dd74a13e6e11ab",
    "webshop/inverse_dynamics_no_history.txt": "220b80c73864c165",
    "webshop/next_action.txt": "0803e0e012d1c1f1",
    "webshop/next_action_no_history.txt": "7bdccbfda2e3095f",
}
ALWAYS = {"task_description", "current_observation"}
HISTORY = {"step_count", "history_length", "action_history", "current_step"}
ACTIONS = {
    "alfworld": {"admissible_actions"},
    "webshop": {"available_actions"},
    "scienceworld": {"action_templates", "objects"},
}
every_template = pytest.mark.parametrize(
    ("name", "mode"), [(name, mode) for name in BENCHMARKS for mode in Mode]
)


def listing(title: str) -> str:
    if not PAPER.exists():
        pytest.skip("the paper's source is not beside the repository; the hashes still pin the files")
    found = re.findall(
        r"\\begin\{agentprompt\}\{\w+\}\{" + re.escape(title) + r"\}\n(.*?)\n\\end\{agentprompt\}",
        PAPER.read_text(encoding="utf-8"),
        re.DOTALL,
    )
    assert len(found) == 1
    return found[0]


def data_file(name: str) -> bytes:
    benchmark, file = name.split("/")
    return (files("actfirst.environments") / benchmark / "templates" / file).read_bytes()


@every_template
def test_a_template_is_the_listing_of_the_paper(name: str, mode: Mode) -> None:
    expected = listing(f"{BENCHMARKS[name]}: {TITLES[mode]}")
    assert data_file(f"{name}/{mode.value}.txt").decode() == expected
    assert TEMPLATE_SETS[name].with_history[mode].text == expected


def test_the_inserted_text_is_the_listing_of_the_paper() -> None:
    assert early_stop() == listing("Inserted thinking-budget continuation")


def test_the_inserted_text_has_four_lines_and_no_newline_at_its_end() -> None:
    why = "Considering the limited time by the user"
    what = "I have to give the action based on the thinking directly now."
    assert early_stop().split("\n") == [f"{why}, {what}", "</think>", "", "<action>"]


@pytest.mark.parametrize("name", HASHES)
def test_no_template_file_changed(name: str) -> None:
    assert hashlib.sha256(data_file(name)).hexdigest()[:16] == HASHES[name]


def test_there_are_no_other_template_files() -> None:
    folder = Path(str(files("actfirst.environments")))
    found = {f"{path.parts[-3]}/{path.name}" for path in folder.glob("*/templates/*.txt")}
    assert {name for name in found if not name.startswith("general/")} == set(HASHES)  # those of the paper


@every_template
def test_a_no_history_form_leaves_out_the_history_and_the_step_and_nothing_else(name: str, mode: Mode) -> None:
    """Appendix "History Management" names these forms but does not print them."""
    full = TEMPLATE_SETS[name].with_history[mode].text
    start = full.index("Prior to this step")
    end = full.index("You are now at step {current_step} and your current observation is:")
    assert full[start:end].rstrip("\n").endswith("{action_history}")
    rest = full[end:].replace("You are now at step {current_step} and your", "Your", 1)
    assert TEMPLATE_SETS[name].without_history[mode].text == full[:start] + rest


@every_template
def test_a_template_asks_for_its_values_once_each_and_for_no_others(name: str, mode: Mode) -> None:
    reference = {"reference_next_observation"} if mode is Mode.INVERSE_DYNAMICS else set()
    needed = ALWAYS | ACTIONS[name] | reference
    assert sorted(TEMPLATE_SETS[name].with_history[mode].placeholders) == sorted(needed | HISTORY)
    assert sorted(TEMPLATE_SETS[name].without_history[mode].placeholders) == sorted(needed)
