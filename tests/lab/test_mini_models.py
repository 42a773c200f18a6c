"""The builder of the alfworld-mini models goes from game files to a student and a teacher, and is not done twice."""

from __future__ import annotations

from pathlib import Path

import pytest
from transformers import AutoTokenizer

from actfirst.environments.alfworld.world import AlfworldWorld
from actfirst.lab.mini_models.build import BuildPlan, build_models
from actfirst.lab.mini_models.vocabulary import make_tokenizer
from actfirst.lab.pocket_models.build import Shape
from actfirst.models.files import read_files
from actfirst.policy.tokens import PromptEncoder
from actfirst.training.sft import SftWatcher
from tests.environments import published

pytestmark = pytest.mark.skipif(not published.ARCHIVE.exists(), reason=published.ABSENT)

PLAN = BuildPlan(
    Shape(hidden=32, layers=1, heads=1, head_dim=32, mlp=32),
    vocabulary_walks=6,
    settings=(
        "sft.steps=2",
        "sft.batch_size=2",
        "sft.held_out=0.0",
        "evaluation.at_end=false",
        "sft.data=[{kind = 'demonstrator', tasks = 3}]",
    ),
)


@pytest.fixture(scope="module")
def games(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("games")
    for split in ("train", "valid_seen"):
        (folder / split).symlink_to(published.unpacked() / "valid_seen")
    return folder


def test_a_build_gives_two_models_with_one_tokenizer_and_a_second_call_trains_nothing(
    games: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    result = build_models(tmp_path, str(games), PLAN, said.append, SftWatcher)
    assert set(result["models"]) == {"base", "student", "teacher"}
    student, teacher = (AutoTokenizer.from_pretrained(tmp_path / name) for name in ("student", "teacher"))
    assert student.get_vocab() == teacher.get_vocab()
    assert read_files(tmp_path / "student").shape == read_files(tmp_path / "teacher").shape
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("student", "teacher")]
    assert weights[0] != weights[1]

    again: list[str] = []
    assert build_models(tmp_path, str(games), PLAN, again.append, SftWatcher) == result
    assert again == [f"{name}: already trained" for name in ("base", "teacher", "student")]
    assert [(tmp_path / name / "model.safetensors").read_bytes() for name in ("student", "teacher")] == weights


def test_names_and_sentences_of_both_orders_of_prompts_are_single_tokens(games: Path) -> None:
    encoder = PromptEncoder(make_tokenizer(AlfworldWorld(games), PLAN.vocabulary_walks))
    for text in (
        " cabinet 1",
        "You are an expert agent operating in the ALFRED Embodied Environment. Your task is to:",
        "Below are the observations and the corresponding actions you took: ",
        "[Observation 7: '",
    ):
        assert len(encoder.encode_markup(text)) == 1, text
