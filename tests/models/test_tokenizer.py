"""A plain tokenizer folder is read without transformers, and says the same."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from actfirst.errors import CheckpointError, ConfigError
from actfirst.models.folder import resolve_model
from actfirst.models.tokenizer import PlainTokenizer, open_tokenizer

CHATS = (
    [{"role": "user", "content": "go to <|im_end|> {x} {{ y }}\n"}],
    [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
    ],
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(resolve_model("pocket:student", "model"), tmp_path / "student"))


def change(folder: Path, **stated: object) -> None:
    path = folder / "tokenizer_config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **stated}))


@pytest.mark.parametrize("thinking", [True, False])
@pytest.mark.parametrize("chat", CHATS)
def test_it_says_what_transformers_says(folder: Path, chat: list[dict[str, str]], thinking: bool) -> None:
    ours, theirs = open_tokenizer(folder), AutoTokenizer.from_pretrained(str(folder))
    assert isinstance(ours, PlainTokenizer)
    how = {"tokenize": False, "add_generation_prompt": True, "enable_thinking": thinking}
    assert ours.apply_chat_template(chat, **how) == theirs.apply_chat_template(chat, **how)
    assert ours.eos_token_id == theirs.eos_token_id
    assert {i: str(token) for i, token in ours.added_tokens_decoder.items()} == {
        i: str(token) for i, token in theirs.added_tokens_decoder.items()
    }
    assert ours.backend_tokenizer.get_vocab() == theirs.get_vocab()


def test_templates_know_special_tokens_and_what_transformers_gives_them(folder: Path) -> None:
    template = "{{ eos_token }}{{ messages | tojson }}{% for m in messages %}{% break %}{% endfor %}{{ tools is none }}"
    (folder / "chat_template.jinja").write_text(template)
    ours, theirs = open_tokenizer(folder), AutoTokenizer.from_pretrained(str(folder))
    how = {"tokenize": False, "add_generation_prompt": True, "enable_thinking": True}
    assert ours.apply_chat_template(CHATS[0], **how) == theirs.apply_chat_template(CHATS[0], **how)


@pytest.mark.parametrize(
    "stated",
    [
        {"tokenizer_class": "Qwen2Tokenizer"},
        {"extra_special_tokens": ["<new>"]},
        {"eos_token": "<not known>"},
        {"eos_token": {"content": "<|im_end|>"}},
        {"chat_template": [{"name": "default", "template": "x"}]},
    ],
)
def test_whatever_transformers_would_change_is_left_to_it(folder: Path, stated: dict[str, object]) -> None:
    (folder / "chat_template.jinja").unlink()
    change(folder, **stated)
    assert PlainTokenizer.read(folder) is None


def test_a_tag_of_transformers_is_left_to_it(folder: Path) -> None:
    (folder / "chat_template.jinja").write_text("{% generation %}x{% endgeneration %}")
    assert PlainTokenizer.read(folder) is None


def test_broken_and_missing_files_are_named(folder: Path) -> None:
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(CheckpointError, match=r"tokenizer\.json cannot be read"):
        open_tokenizer(folder)
    (folder / "tokenizer.json").unlink()
    with pytest.raises(ConfigError, match=r"has no tokenizer\.json"):
        open_tokenizer(folder)
