"""The tokenizer of a model's folder with its chat template, without importing transformers where that is not needed.

A plain folder is one that transformers takes as it is: a `tokenizer.json` whose special tokens are all among its own.
Those are read here, in a tenth of a second. All others are opened by transformers, which takes seconds to import and
knows what each family adds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from actfirst.errors import CheckpointError, ConfigError
from actfirst.models.folder import read_json

if TYPE_CHECKING:
    from jinja2 import Template
    from tokenizers import AddedToken, Tokenizer

_AS_IT_IS = ("TokenizersBackend", "PreTrainedTokenizerFast")
_NAMED = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_CHANGES = (
    "added_tokens_decoder",
    "extra_special_tokens",
    "additional_special_tokens",
    "add_bos_token",
    "add_eos_token",
)
_CHANGING_FILES = ("special_tokens_map.json", "added_tokens.json")
_TEMPLATE = "chat_template.jinja"


class ChatTokenizer(Protocol):
    """What prompts are built with: a part of what transformers' fast tokenizers are, under their names."""

    name_or_path: str

    @property
    def is_fast(self) -> bool: ...

    @property
    def backend_tokenizer(self) -> Tokenizer: ...

    @property
    def eos_token_id(self) -> int | None: ...

    @property
    def chat_template(self) -> str | None: ...

    @property
    def added_tokens_decoder(self) -> Mapping[int, AddedToken]: ...

    def apply_chat_template(
        self,
        conversation: list[dict[str, str]],
        *,
        tokenize: bool,
        add_generation_prompt: bool,
        enable_thinking: bool,
    ) -> Any: ...


def open_tokenizer(folder: Path) -> ChatTokenizer:
    """The tokenizer of a folder that holds a tokenizer.json."""
    if not (folder / "tokenizer.json").is_file():
        raise ConfigError(f"{folder} has no tokenizer.json: copy the model's tokenizer files there")
    if (plain := PlainTokenizer.read(folder)) is not None:
        return plain
    from transformers import AutoTokenizer

    return cast("ChatTokenizer", AutoTokenizer.from_pretrained(str(folder)))


class PlainTokenizer:
    """A tokenizer.json taken as it is, and a chat template."""

    is_fast = True

    def __init__(self, folder: Path, core: Tokenizer, special: Mapping[str, str], template: str | None) -> None:
        self.name_or_path = str(folder)
        self.backend_tokenizer = core
        self.chat_template = template
        self._special = special
        self._compiled: Template | None = None

    @classmethod
    def read(cls, folder: Path) -> PlainTokenizer | None:
        """The tokenizer of a folder; None if transformers would make more of it than its files say."""
        stated = read_json(folder / "tokenizer_config.json")
        others = any(stated.get(key) for key in _CHANGES) or any((folder / f).exists() for f in _CHANGING_FILES)
        if stated.get("tokenizer_class") not in _AS_IT_IS or others:
            return None
        template = stated.get("chat_template")
        if (folder / _TEMPLATE).is_file():
            template = (folder / _TEMPLATE).read_text("utf-8")
        special = {name: stated[name] for name in _NAMED if stated.get(name)}
        texts = [*special.values(), template or ""]
        if not all(isinstance(text, str) for text in texts) or "generation %}" in texts[-1]:
            return None  # tokens with properties, several templates, or a tag that only transformers knows
        core = read_tokenizer(folder / "tokenizer.json")
        known = {token.content for token in core.get_added_tokens_decoder().values() if token.special}
        return cls(folder, core, special, template) if known.issuperset(special.values()) else None

    @property
    def eos_token_id(self) -> int | None:
        text = self._special.get("eos_token")
        return self.backend_tokenizer.token_to_id(text) if text else None

    @property
    def added_tokens_decoder(self) -> Mapping[int, AddedToken]:
        return self.backend_tokenizer.get_added_tokens_decoder()

    def apply_chat_template(
        self,
        conversation: Sequence[Mapping[str, str]],
        *,
        tokenize: bool,
        add_generation_prompt: bool,
        enable_thinking: bool,
    ) -> str:
        """The text of a chat; `tokenize` must be false, which is not what transformers takes for granted."""
        assert not tokenize, "ids are the business of the caller"
        if self._compiled is None:
            self._compiled = _compiled(self.chat_template or "")
        return self._compiled.render(
            messages=conversation,
            tools=None,
            documents=None,
            add_generation_prompt=add_generation_prompt,
            enable_thinking=enable_thinking,
            **self._special,
        )


def read_tokenizer(path: Path) -> Tokenizer:
    """A tokenizer.json."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises nothing more special
        raise CheckpointError(f"{path} cannot be read: {error}; copy the checkpoint again") from error


def _compiled(template: str) -> Template:
    """As transformers compiles chat templates."""
    import json
    from datetime import datetime

    from jinja2.exceptions import TemplateError
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    def raise_exception(message: str) -> None:
        raise TemplateError(message)

    def tojson(
        value: object,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )

    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.filters["tojson"] = tojson
    environment.globals["raise_exception"] = raise_exception
    environment.globals["strftime_now"] = lambda form: datetime.now().strftime(form)
    return environment.from_string(template)
