"""Adapters in PEFT's form: read into any place that names a model, and written by the learner; judged by peft."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

from actfirst.errors import CheckpointError
from actfirst.learning.checkpoint import save
from actfirst.learning.update import Learner
from actfirst.models.folder import check_model, resolve_model
from tests.learning.making import learning, make_samples
from tests.support.tiny_models import make_tiny_checkpoint

peft = pytest.importorskip("peft")


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ACTFIRST_CACHE", str(tmp_path / "cache"))
    return make_tiny_checkpoint(tmp_path / "base")


@pytest.mark.parametrize("rslora", [False, True])
def test_a_folder_of_peft_is_a_model(base: Path, tmp_path: Path, rslora: bool) -> None:
    model = AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    settings = peft.LoraConfig(
        r=4, lora_alpha=16, target_modules=["q_proj", "down_proj"], init_lora_weights=False, use_rslora=rslora
    )
    adapted = peft.get_peft_model(model, settings)
    adapted.save_pretrained(tmp_path / "adapter")
    assert check_model(str(tmp_path / "adapter"), "models.student") == base
    folder = resolve_model(str(tmp_path / "adapter"), "models.student")
    assert folder == resolve_model(str(tmp_path / "adapter"), "models.student")
    assert (folder / "tokenizer.json").is_file()
    ids = torch.arange(20)[None]
    ours = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    with torch.no_grad():
        assert torch.allclose(ours(ids).logits, adapted.eval()(ids).logits, atol=1e-4)


def test_what_the_learner_writes_is_read_by_peft(base: Path, tmp_path: Path) -> None:
    learner = Learner(base, learning(adapter_rank=4, adapter_alpha=8.0, learning_rate=1e-2))
    learner.update(make_samples(4))
    step = save(tmp_path / "checkpoints", learner, [], {})
    loaded = peft.PeftModel.from_pretrained(
        AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32), step / "adapter"
    )
    whole = AutoModelForCausalLM.from_pretrained(step / "model", dtype=torch.float32)
    ids = torch.arange(20)[None]
    with torch.no_grad():
        assert torch.allclose(loaded(ids).logits, whole(ids).logits, atol=1e-4)
    assert load_file(resolve_model(str(step / "adapter"), "models.student") / "model.safetensors").keys()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"use_dora": True}, "use_dora"),
        ({"peft_type": "IA3"}, "IA3"),
        ({"base_model_name_or_path": None}, "base_model"),
    ],
)
def test_what_is_not_plain_is_refused_by_name(
    change: dict[str, object], named: str, base: Path, tmp_path: Path
) -> None:
    config = {"peft_type": "LORA", "base_model_name_or_path": str(base), "lora_alpha": 1, **change}
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "adapter_config.json").write_text(json.dumps(config))
    with pytest.raises(CheckpointError, match=named):
        resolve_model(str(tmp_path / "a"), "models.student")
