"""Finds the model that a person means: a checkpoint folder, a shipped model, or the newest of a run."""

from __future__ import annotations

import hashlib
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from actfirst.errors import CheckpointError, ConfigError
from actfirst.models.adapters import base_of, is_adapter, merged
from actfirst.models.hub import cached, fetch, is_hub_id, pinned
from actfirst.reading import Unreadable, read_object
from actfirst.runs.manifest import MANIFEST, evaluated_model, step_of, verify_model
from actfirst.runs.run import open_run
from actfirst.runs.run_folder import CONFIG

_SHIPPED = ("pocket", "alfworld-mini", "webshop-mini", "scienceworld-mini")
_SAMPLES, _SAMPLE = 17, 1 << 16  # of a file, and bytes of each


def resolve_model(name: str, key: str) -> Path:
    """A Hugging Face checkpoint folder; `pocket:`, `alfworld-mini:` and their like (student, teacher)
    ship with the package, `owner/name@revision` comes from the hub, and of a run, or a checkpoint of one, it is the
    model that was trained."""
    folder = fetch(name, key) if is_hub_id(name) else Path(name).expanduser()
    if is_adapter(folder):
        return merged(folder, resolve_model(base_of(folder), f"{key}, the base of {name}"))
    return folder if is_hub_id(name) else local_model(name, key)


def check_model(name: str, key: str) -> Path | None:
    """Raise ConfigError unless there is such a model. Nothing is downloaded: None if it is on the hub alone."""
    if is_hub_id(name):
        return cached(pinned(name, key))
    if is_adapter(folder := Path(name).expanduser()):
        return check_model(base_of(folder), f"{key}, the base of {name}")
    return local_model(name, key)


def local_model(name: str, key: str) -> Path:
    """As `resolve_model`, of this machine alone. The model of a run's checkpoint is compared with its manifest."""
    name = trained_model(name, key)
    path = Path(name).expanduser()
    if is_shipped(name):
        path = Path(str(files("actfirst.models").joinpath(*name.split(":", 1))))
    if not os.path.isfile(path / "config.json"):  # pathlib raises where a name is too long to be one
        raise ConfigError(
            f"{key} = {name!r}: no checkpoint there ({path} has no config.json); name a folder with a "
            "Hugging Face checkpoint (config.json, model.safetensors, tokenizer.json), OWNER/NAME of one on the "
            "hub, or pocket:student"
        )
    return verify_model(path)


def is_shipped(name: str) -> bool:
    """Whether a name is that of a model in the package: pocket:student."""
    family, _, model = name.partition(":")
    return family in _SHIPPED and bool(model)


def trained_model(name: str, key: str) -> str:
    """The model folder inside a run folder (of its newest complete checkpoint) or inside a checkpoint of a run; any
    other name as it is."""
    if step_of(folder := Path(name).expanduser()) is not None and (folder / MANIFEST).is_file():
        return str(evaluated_model(folder))
    recipe = recipe_of(name)
    if recipe is None:
        return name
    checkpoints = open_run(recipe.parent).checkpoints()
    if not checkpoints:
        raise CheckpointError(f"{key} = {name!r}: that run has no complete checkpoint yet; train it further")
    return str(checkpoints[-1].model)


def fingerprint(place: Path) -> str:
    """Identifies the content of a checkpoint folder, or of one file, by sizes and samples of bytes.

    Training moves all weights, so samples tell; a large model is not read as a whole.
    """
    found = hashlib.blake2b(digest_size=12)
    for path in sorted(path for path in (place, *place.rglob("*")) if path.is_file()):
        size = path.stat().st_size
        found.update(f"{path.relative_to(place).as_posix()} {size}\n".encode())
        with path.open("rb") as file:
            for number in range(_SAMPLES):
                file.seek(number * max(0, size - _SAMPLE) // (_SAMPLES - 1))
                found.update(file.read(_SAMPLE))
    return found.hexdigest()


def recipe_of(name: str) -> Path | None:
    """The recipe of a run, if `name` is a run folder."""
    path = Path(name).expanduser() / CONFIG
    return path if os.path.isfile(path) else None


def read_config(folder: Path) -> dict[str, Any]:
    """The config.json of a model."""
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder} holds no config.json: give the folder of a Hugging Face checkpoint")
    return read_json(folder / "config.json")


def read_json(path: Path) -> dict[str, Any]:
    """One of a model's JSON files; empty when there is none."""
    if not path.is_file():
        return {}
    try:
        return read_object(path)
    except Unreadable as error:
        raise CheckpointError(f"{path} cannot be read: {error}; copy the checkpoint again") from error
