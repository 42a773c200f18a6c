"""Adapters as PEFT stores them: `adapter_config.json` and `adapter_model.safetensors`. Read and written without peft.

A folder of adapters can stand wherever a model is named: it is merged with its base model once, into a folder of the
cache (ACTFIRST_CACHE, by default ~/.cache/actfirst).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from actfirst.errors import CheckpointError
from actfirst.reading import Unreadable, read_object

if TYPE_CHECKING:
    from torch import Tensor

CONFIG, WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
_PREFIX = "base_model.model."
_KEY = re.compile(r"base_model\.model\.(.+)\.lora_(A|B)\.weight")
_COPIED = (".json", ".jinja", ".txt", ".model")


def is_adapter(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and not (folder / "config.json").is_file()


def base_of(folder: Path) -> str:
    """The model that the adapters belong to: a folder, or a name on the hub."""
    base = _read(folder).get("base_model_name_or_path")
    if not isinstance(base, str) or not base:
        raise CheckpointError(f"{folder / CONFIG} does not say base_model_name_or_path; add it")
    beside = folder / base
    return str(beside) if (beside / "config.json").is_file() else base


def merged(folder: Path, base: Path) -> Path:
    """A checkpoint folder with the adapters multiplied into the weights of `base`; made once."""
    digest = hashlib.sha256(str(base.resolve()).encode())
    for path in (folder / CONFIG, folder / WEIGHTS):
        digest.update(path.read_bytes() if path.is_file() else b"")
    cache = Path(os.environ.get("ACTFIRST_CACHE") or "~/.cache/actfirst").expanduser()
    target = cache / "merged" / digest.hexdigest()[:16]
    if not (target / "config.json").is_file():
        _merge(folder, base, target)
    return target


def write_adapter(folder: Path, base: str, adapters: Mapping[str, Tensor], alpha: float) -> None:
    """A PEFT folder of the learner's adapters, whose names end in `.lora_A.default.weight`."""
    from safetensors.torch import save_file

    folder.mkdir(parents=True, exist_ok=True)
    tensors = {_PREFIX + name.replace(".default.", "."): value.contiguous() for name, value in adapters.items()}
    modules = sorted({found[1].rsplit(".", 1)[-1] for name in tensors if (found := _KEY.fullmatch(name))})
    rank = next(len(value) for name, value in tensors.items() if ".lora_A." in name)
    config = {
        "peft_type": "LORA",
        "task_type": "CAUSAL_LM",
        "base_model_name_or_path": base,
        "r": rank,
        "lora_alpha": alpha,
        "lora_dropout": 0.0,
        "bias": "none",
        "target_modules": modules,
        "inference_mode": True,
    }
    (folder / CONFIG).write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    save_file(tensors, folder / WEIGHTS, metadata={"format": "pt"})


def _merge(folder: Path, base: Path, target: Path) -> None:
    from safetensors.torch import load_file, save_file

    from actfirst.models.files import read_weights

    config = _read(folder)
    if not (folder / WEIGHTS).is_file():
        raise CheckpointError(f"{folder} holds {CONFIG} but no {WEIGHTS}; copy the adapters again")
    tensors, weights = load_file(folder / WEIGHTS), read_weights(base)
    pairs: dict[str, dict[str, Tensor]] = {}
    for name, tensor in tensors.items():
        found = _KEY.fullmatch(name)
        if found is None or f"{found[1]}.weight" not in weights:
            raise CheckpointError(
                f"{folder / WEIGHTS}: {name} belongs to no weight of {base}; name its base model"
            )
        pairs.setdefault(f"{found[1]}.weight", {})[found[2]] = tensor
    for name, pair in pairs.items():
        if set(pair) != {"A", "B"}:
            raise CheckpointError(f"{folder / WEIGHTS}: {name} has one half of its adapter only; copy it again")
        rank = len(pair["A"])
        scale = config["lora_alpha"] / (rank**0.5 if config.get("use_rslora") else rank)
        change = pair["B"].float() @ pair["A"].float() * scale
        weights[name] = (weights[name].float() + change).to(weights[name].dtype)
    unfinished = target.with_name(f".{target.name}-{os.getpid()}")
    unfinished.mkdir(parents=True)
    for source in (base, folder):  # a tokenizer that was stored with the adapters counts
        for path in source.iterdir():
            if path.suffix in _COPIED and path.name != CONFIG and not path.name.endswith(".index.json"):
                shutil.copyfile(path, unfinished / path.name)
    save_file(weights, unfinished / "model.safetensors", metadata={"format": "pt"})
    shutil.rmtree(target, ignore_errors=True)
    unfinished.rename(target)


def _read(folder: Path) -> dict[str, Any]:
    """The adapter_config.json, if it is of a kind that can be merged by a product."""
    try:
        config = read_object(folder / CONFIG)
    except Unreadable as error:
        raise CheckpointError(f"{folder / CONFIG} cannot be read: {error}; copy it again") from error
    other = {
        f"peft_type = {config.get('peft_type')!r}": config.get("peft_type") != "LORA",
        "use_dora": bool(config.get("use_dora")),
        "modules_to_save": bool(config.get("modules_to_save")),
        "fan_in_fan_out": bool(config.get("fan_in_fan_out")),
        "alpha_pattern": bool(config.get("alpha_pattern")),
        "bias": config.get("bias", "none") != "none",
    }
    for what, present in other.items():
        if present:
            raise CheckpointError(
                f"{folder / CONFIG}: {what} is not plain LoRA; merge it with peft and name the merged folder"
            )
    return config
