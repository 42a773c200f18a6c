"""What a filled prompt says (paper, appendix "Prompt Details") and what never appears in one."""

from __future__ import annotations

import inspect
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings

from actfirst.environments.webshop.kind import without_instruction
from actfirst.errors import ConfigError
from actfirst.policy.render import pair_text, read_templates, render, render_inverse_dynamics
from actfirst.records import Mode, Pair, TurnContext
from tests.policy.contexts import ALFWORLD, CONTEXTS, REFERENCE, SCIENCEWORLD, SECRET, WEBSHOP, contexts
from tests.support.kinds import TEMPLATE_SETS

AUTONOMOUS = (Mode.FULL, Mode.NEXT_ACTION)
every_benchmark = pytest.mark.parametrize("name", CONTEXTS)


def test_an_alfworld_prompt_with_history() -> None:
    assert render(TEMPLATE_SETS["alfworld"], Mode.NEXT_ACTION, ALFWORLD, 2) == (
        "You are an expert agent operating in the ALFRED Embodied Environment."
        " Your task is to: put a clean cup on the table.\n"
        "Prior to this step, you have already taken 2 step(s). Below are the most recent 2 observations and the"
        " corresponding actions you took: \n"
        "[Observation 1: 'You are in a kitchen.\n\nYou see a sink 1.', Action 1: 'go to sink 1']\n"
        "[Observation 2: 'You arrive at sink 1.', Action 2: 'take cup 1 from sink 1']\n"
        "You are now at step 3 and your current observation is: You pick up the cup 1.\n"
        "Your admissible actions of the current situation are: ['clean cup 1 with sink 1', 'look'].\n\n"
        "Now it's your turn to take an action.\n"
        "You should choose an admissible action for current step and present it within <action> </action> tags."
    )


def test_a_dropped_pair_leaves_the_step_and_the_numbers_of_the_others_as_they_are() -> None:
    text = render(TEMPLATE_SETS["alfworld"], Mode.FULL, ALFWORLD, 1)
    assert "already taken 2 step(s)" in text
    assert "most recent 1 observations" in text
    assert (
        "\n[Observation 2: 'You arrive at sink 1.', Action 2: 'take cup 1 from sink 1']\nYou are now at step 3"
        in text
    )
    assert "Observation 1:" not in text


def test_with_no_pair_retained_the_no_history_form_is_used() -> None:
    """Appendix "History Management"."""
    text = render(TEMPLATE_SETS["alfworld"], Mode.FULL, ALFWORLD, 0)
    assert "on the table.\nYour current observation is: You pick up the cup 1.\nYour admissible" in text
    assert "Prior to this step" not in text
    assert "step 3" not in text


def test_how_a_list_looks_is_part_of_the_template_files(tmp_path: Path) -> None:
    """The paper prints `[{admissible_actions}]` and not the items; other code bases put each on a line of its own."""
    forms = TEMPLATE_SETS["alfworld"].forms
    shutil.copytree(str(forms.folder), tmp_path, dirs_exist_ok=True)
    (tmp_path / "forms.toml").write_text('[admissible_actions]\nseparator = "\\n "\n')
    other = read_templates(replace(forms, folder=tmp_path))
    assert "are: ['clean cup 1 with sink 1'\n 'look'].\n" in render(other, Mode.FULL, ALFWORLD, 1)
    (tmp_path / "forms.toml").unlink()
    usual = read_templates(replace(forms, folder=tmp_path))
    assert "are: ['clean cup 1 with sink 1', 'look'].\n" in render(usual, Mode.FULL, ALFWORLD, 1)
    (tmp_path / "forms.toml").write_text("[admissible_actions]\nseperator = ','\n")
    with pytest.raises(ConfigError, match=r"(?s)forms\.toml.*seperator"):
        read_templates(replace(forms, folder=tmp_path))


def test_webshop_offers_search_as_a_form_and_clicks_as_they_are() -> None:
    text = render(TEMPLATE_SETS["webshop"], Mode.FULL, WEBSHOP, 1)
    assert "[\n'search[<your query>]',\n'click[back to search]',\n'click[b0001]',\n]." in text


def test_webshop_offers_no_search_on_a_page_without_a_search_bar() -> None:
    page = replace(WEBSHOP, observation=replace(WEBSHOP.observation, templates=()))
    text = render(TEMPLATE_SETS["webshop"], Mode.FULL, page, 1)
    assert "situation are:\n[\n'click[back to search]',\n'click[b0001]',\n]." in text


def test_scienceworld_shows_templates_and_objects_and_not_the_admissible_list() -> None:
    """Appendix "Benchmarks": templates and object referents are given separately to limit the length."""
    text = render(TEMPLATE_SETS["scienceworld"], Mode.FULL, SCIENCEWORLD, 1)
    assert "Available action commands: ['look around', 'pour OBJ in OBJ']\n" in text
    assert "Available objects you can interact with: ['water', 'pot']\n" in text
    assert "boil water in pot" not in text


@every_benchmark
def test_only_inverse_dynamics_shows_the_reference(name: str) -> None:
    templates, context = TEMPLATE_SETS[name], CONTEXTS[name]
    for retained in (0, 1):
        shown = render_inverse_dynamics(templates, context, retained, REFERENCE)
        assert f"Reference next observation:\n{REFERENCE}\n" in shown
        for mode in AUTONOMOUS:
            assert "eference next observation" not in render(templates, mode, context, retained)


def test_a_reference_cannot_be_passed_to_the_other_modes() -> None:
    assert "reference" not in " ".join(inspect.signature(render).parameters)
    with pytest.raises(ValueError, match="render_inverse_dynamics"):
        render(TEMPLATE_SETS["alfworld"], Mode.INVERSE_DYNAMICS, ALFWORLD, 0)


def test_of_the_reference_only_a_text_can_be_passed() -> None:
    """Reference actions and the reference's admissible actions never reach a prompt (appendix "Transition
    Consistency Checks"): there is no parameter that could carry them."""
    parameters = inspect.signature(render_inverse_dynamics).parameters
    assert list(parameters) == ["templates", "context", "retained", "reference_observation"]
    assert parameters["reference_observation"].annotation == "str"


@every_benchmark
def test_the_simulator_state_never_appears(name: str) -> None:
    texts = [render(TEMPLATE_SETS[name], mode, CONTEXTS[name], 1) for mode in AUTONOMOUS]
    texts.append(render_inverse_dynamics(TEMPLATE_SETS[name], CONTEXTS[name], 1, REFERENCE))
    assert all(SECRET not in text for text in texts)


def test_webshop_removes_the_instruction_block_from_the_reference_and_from_nothing_else() -> None:
    """Appendix "Transition Consistency Checks", WebShop."""
    page = "You have clicked red.\nInstruction:\nfind me a red shirt\n[button] Buy Now [button_]"
    text = render_inverse_dynamics(TEMPLATE_SETS["webshop"], WEBSHOP, 1, page)
    assert "Reference next observation:\nYou have clicked red.\n[button] Buy Now [button_]\n\nIf the" in text
    assert "observation is:\nInstruction:\nfind me a red shirt\n" in text
    assert (
        "[Observation 1: 'WebShop\nInstruction: \nfind me a red shirt', Action 1: 'search[red shirt]']" in text
    )


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        ("WebShop\nInstruction: \nbuy it\n[button] Search [button_]", "WebShop\n[button] Search [button_]"),
        ("Instruction:\nbuy it\n[button] x [button_]\nPage 1", "[button] x [button_]\nPage 1"),
        ("Instruction:\na\ntitle\nInstruction:\nb", "title\nInstruction:\nb"),
        ("Thank you for shopping with us!\nYour score", "Thank you for shopping with us!\nYour score"),
        ("Instruction: wash cold\nkeep", "Instruction: wash cold\nkeep"),
        ("Instruction:\nbuy it", ""),
        ("", ""),
    ],
)
def test_the_instruction_block_of_each_page(page: str, shown: str) -> None:
    assert without_instruction(page) == shown


@pytest.mark.parametrize("name", ["alfworld", "scienceworld"])
def test_other_benchmarks_show_the_reference_as_it_is(name: str) -> None:
    page = "Instruction:\nbuy it\n[button]"
    assert page in render_inverse_dynamics(TEMPLATE_SETS[name], CONTEXTS[name], 1, page)


def test_braces_in_values_are_plain_text() -> None:
    hostile = "{current_observation} {0} {{x}} {reference_next_observation} %s \\1"
    context = replace(
        ALFWORLD,
        instruction=hostile,
        history=(Pair(hostile, hostile), ALFWORLD.history[1]),
        observation=replace(ALFWORLD.observation, text="{task_description}", admissible=(hostile,)),
    )
    text = render(TEMPLATE_SETS["alfworld"], Mode.FULL, context, 2)
    assert text.count(hostile) == 4
    assert "your current observation is: {task_description}\n" in text


@pytest.mark.parametrize("retained", [-1, 3])
def test_more_pairs_than_there_are_cannot_be_retained(retained: int) -> None:
    with pytest.raises(ValueError, match="history of 2"):
        render(TEMPLATE_SETS["alfworld"], Mode.FULL, ALFWORLD, retained)


@settings(max_examples=60)
@given(context=contexts())
def test_the_text_of_a_pair_never_changes_during_an_episode(context: TurnContext) -> None:
    templates = TEMPLATE_SETS["alfworld"]
    text = render(templates, Mode.FULL, context, len(context.history))
    for number, pair in enumerate(context.history, start=1):
        assert pair_text(number, pair) in text
