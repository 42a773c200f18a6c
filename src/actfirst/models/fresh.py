"""Models of random weights: the shape, tokenizer and chat template of one that exists, and nothing that it learned."""

from __future__ import annotations

import shutil
from pathlib import Path

from actfirst.models.folder import resolve_model

NEW = "new:"
_COPIED = (".json", ".jinja", ".txt", ".model")


def start_model(name: str, key: str, folder: Path, seed: int) -> Path:
    """The folder behind `name`. `new:MODEL` makes one with random weights in `folder`, once."""
    if not name.startswith(NEW):
        return resolve_model(name, key)
    source = resolve_model(name.removeprefix(NEW), key)
    if not (folder / "model.safetensors").is_file():
        _make(source, folder, seed)
    return folder


def _make(source: Path, folder: Path, seed: int) -> None:
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    unfinished = folder.with_name(f".{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for path in sorted(source.iterdir()):
        if path.suffix in _COPIED and not path.name.endswith(".index.json"):
            shutil.copyfile(path, unfinished / path.name)
    before = torch.random.get_rng_state()
    torch.manual_seed(seed)
    config = AutoConfig.from_pretrained(source, local_files_only=True)
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(unfinished)
    torch.random.set_rng_state(before)
    unfinished.rename(folder)
