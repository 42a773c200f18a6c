"""Finds the folder that a model name means. Knows names and folders, loads nothing."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from actfirst.errors import ConfigError

_SHIPPED = "pocket:"


def resolve_model(name: str, key: str) -> Path:
    """A Hugging Face checkpoint folder; `pocket:student` and `pocket:teacher` ship with the package."""
    if name.startswith(_SHIPPED):
        path = Path(str(files("actfirst") / "pocket_models" / name.removeprefix(_SHIPPED)))
    else:
        path = Path(name).expanduser()
    if not (path / "config.json").is_file():
        raise ConfigError(
            f"{key} = {name!r}: no checkpoint there ({path} has no config.json); name a folder with a "
            "Hugging Face checkpoint (config.json, model.safetensors, tokenizer.json), or pocket:student"
        )
    return path
