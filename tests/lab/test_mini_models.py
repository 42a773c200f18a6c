"""The builder of the small models goes from training tasks to a student and a teacher, whatever the world, and is not
done twice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoTokenizer, PreTrainedModel

from actfirst.environments.alfworld.kind import KIND as ALFWORLD
from actfirst.environments.alfworld.world import AlfworldWorld
from actfirst.environments.scienceworld.lexicon import LEXICON as SCIENCEWORLD_WORDS
from actfirst.environments.webshop.kind import KIND as WEBSHOP
from actfirst.environments.webshop.world import open_webshop
from actfirst.lab.mini_models.build import SHAPE, BuildPlan, build_models
from actfirst.lab.mini_models.copying import write_copying
from actfirst.lab.mini_models.vocabulary import make_tokenizer
from actfirst.lab.pocket_models.new_model import Shape, new_model
from actfirst.lab.pocket_models.tokenizer import train_tokenizer
from actfirst.models.files import read_files
from actfirst.policy.tokens import PromptEncoder
from actfirst.training.sft import SftWatcher
from tests.environments import published

real_games = pytest.mark.skipif(not published.ARCHIVE.exists(), reason=published.ABSENT)

PLAN = BuildPlan(
    Shape(hidden=32, layers=2, heads=1, head_dim=32, mlp=32),
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


def build(recipe: str, out: Path, *settings: str) -> tuple[dict[str, Any], list[str]]:
    """The result of a build, and what was said."""
    said: list[str] = []
    plan = replace(PLAN, settings=(*PLAN.settings, *settings))
    return build_models(recipe, out, plan, said.append, SftWatcher), said


@real_games
def test_a_build_gives_two_models_with_one_tokenizer_and_a_second_call_trains_nothing(
    games: Path, tmp_path: Path
) -> None:
    folder = f"environment.folder={games}"
    result, _ = build("alfworld-mini", tmp_path, folder)
    assert set(result["models"]) == {"base", "student", "teacher"}
    student, teacher = (AutoTokenizer.from_pretrained(tmp_path / name) for name in ("student", "teacher"))
    assert student.get_vocab() == teacher.get_vocab()
    assert read_files(tmp_path / "student").shape == read_files(tmp_path / "teacher").shape
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("student", "teacher")]
    assert weights[0] != weights[1]

    again, said = build("alfworld-mini", tmp_path, folder)
    assert again == result
    assert said == [f"{name}: already trained" for name in ("base", "teacher", "student")]
    assert [(tmp_path / name / "model.safetensors").read_bytes() for name in ("student", "teacher")] == weights


def test_the_same_build_makes_models_for_another_world(tmp_path: Path) -> None:
    """The products that come with the package."""
    settings = ("environment.folder=", "environment.train=[0, 40]", "environment.eval=[40, 60]")
    result, said = build("webshop-mini", tmp_path, *settings)
    assert set(result["models"]) == {"base", "student", "teacher"}
    assert said[0] == "tokenizer: collecting the words of the tasks"
    assert (tmp_path / "student" / "model.safetensors").is_file()
    tokenizer = AutoTokenizer.from_pretrained(tmp_path / "student")
    encoder = PromptEncoder(tokenizer)
    product = open_webshop("", nouns="simple").shop.shelf[0]
    lines = f"[button] {product.asin} [button_]\n'click[{product.asin.lower()}]',\n"
    assert len(encoder.encode_markup(lines)) == 2
    for text in (product.asin, product.asin.lower(), "[button] Buy Now [button_]", "'search[<your query>]',"):
        assert len(encoder.encode_markup(text)) == 1, text


def test_titles_and_options_of_several_words_are_one_token_each_and_prices_are_not() -> None:
    world = open_webshop("", nouns="simple")
    encoder = PromptEncoder(make_tokenizer(WEBSHOP, world, 1))
    products = [world.shop.shelf[place] for place in range(len(world.shop.shelf))]
    assert all(len(encoder.encode_markup(product.title)) == 1 for product in products)
    values = [value for product in products for _, values in product.options for value in values]
    several = [value for value in values if " " in value and not value.replace(" ", "").isnumeric()]
    assert several
    for value in several:
        assert len(encoder.encode_markup(f": {value}, and")) == 4, value
        assert len(encoder.encode_markup(f"click[{value}]")) == 3, value
        assert len(encoder.encode_markup(f"  [button] {value} [button_]\n'click[{value}]',\n")) == 2, value
    assert len(encoder.encode_markup("$17.5")) == 4


def test_rooms_boxes_and_pots_of_scienceworld_are_one_token_each() -> None:
    read = [
        "move it to the orange box in the living room.",
        "'orange box', 'flower pot 3'",
        "It is in flower pot 3.",
    ]
    encoder = PromptEncoder(train_tokenizer(read, (), SCIENCEWORLD_WORDS, ()))
    for text in ("orange box", " orange box", " living room", "flower pot 3", " flower pot 3"):
        assert len(encoder.encode_markup(text)) == 1, text
    assert len(encoder.encode_markup(read[0])) == 9


def test_spellings_of_a_name_begin_alike_where_the_world_asks_for_it() -> None:
    """Also two names in one spelling, but less than one name in two."""
    tokenizer = make_tokenizer(WEBSHOP, open_webshop("", nouns="simple"), 1)
    tokens = ("black", "\u0120black", "'click[black]',\n", "'click[white]',\n", "\u0120white")
    places = [tokenizer.convert_tokens_to_ids(token) for token in tokens]

    def likeness(spellings: Sequence[str]) -> torch.Tensor:
        vectors = new_model(PLAN.shape, tokenizer, spellings).get_input_embeddings().weight[places]
        return torch.cosine_similarity(vectors[:, None], vectors[None], dim=-1)

    before, after = likeness(()), likeness(WEBSHOP.lexicon.spellings)
    assert before[0, 1] < 0.6
    assert before[0, 2] < 0.6
    assert after[0, 1] > 0.6
    assert after[0, 2] > 0.6
    assert after[0, 4] < 0.6
    assert before[2, 3] < after[2, 3] < 0.7


def test_a_new_model_finds_in_its_prompt_what_comes_next() -> None:
    """Of 32 tokens that stand somewhere among 250 others, each leads to the next one."""
    tokenizer = make_tokenizer(WEBSHOP, open_webshop("", nouns="simple"), 1)
    model = new_model(SHAPE, tokenizer)
    before = _copied(model, len(tokenizer))
    write_copying(model)
    assert before < 0.1
    assert _copied(model, len(tokenizer)) > 0.9


def test_a_model_of_one_layer_cannot_be_given_what_copies() -> None:
    tokenizer = make_tokenizer(WEBSHOP, open_webshop("", nouns="simple"), 1)
    with pytest.raises(ValueError, match="2 layers, not 1"):
        write_copying(new_model(replace(PLAN.shape, layers=1), tokenizer))


@torch.no_grad()
def _copied(model: PreTrainedModel, words: int) -> float:
    rng = torch.Generator().manual_seed(3)
    text = torch.stack([torch.randperm(words, generator=rng)[:250] for _ in range(4)])
    again = text[:, 100:132]
    proposed = model(torch.cat((text, again), dim=1)).logits[:, 250:-1].argmax(-1)
    return float((proposed == again[:, 1:]).float().mean())


@real_games
def test_names_and_sentences_of_both_orders_of_prompts_are_single_tokens(games: Path) -> None:
    encoder = PromptEncoder(make_tokenizer(ALFWORLD, AlfworldWorld(games), PLAN.vocabulary_walks))
    for text in (
        " cabinet 1",
        "You are an expert agent operating in the ALFRED Embodied Environment. Your task is to:",
        "Below are the observations and the corresponding actions you took: ",
        "[Observation 7: '",
    ):
        assert len(encoder.encode_markup(text)) == 1, text
