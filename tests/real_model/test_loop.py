"""The whole loop with a real model as student and teacher, on both engines: rollout with thinking budget, scoring,
updates, weight synchronisation, evaluation, checkpoint."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from actfirst.config.load import resolve
from actfirst.runs.run_folder import read_metrics
from actfirst.training.open import train
from tests.real_model.conftest import KINDS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

LIMITS = {"prompt_limit": 900, "first_stage": 12, "response_limit": 64, "continuation": 12, "fast_limit": 12}
OVERRIDES = (
    "run.updates=2",
    "environment.turn_limit=2",
    "environment.train_tasks=8",
    "environment.eval_tasks=2",
    "environment.receptacles=[3, 4]",
    "environment.objects=[3, 4]",
    "rollout.tasks_per_batch=2",
    "learner.batch_size=2",
    "learner.learning_rate=1e-5",
    "learner.token_budget=1024",
    "evaluation.at_start=false",
    "evaluation.teacher=false",
    "evaluation.splits=['seen']",
    "evaluation.tasks_per_split=1",
    *(
        f"{section}.generation.{key}={value}"
        for section in ("rollout", "evaluation")
        for key, value in LIMITS.items()
    ),
    *(
        f"{section}.vllm.{option}"
        for section in ("engine", "teacher")
        for option in ("enforce_eager=true", "max_model_len=1024", "kv_cache_gib=0.5")
    ),
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_real_model_distils_itself(kind: str, smollm2: Path, tmp_path: Path) -> None:
    models = (f"models.student={smollm2}", f"models.teacher={smollm2}")
    config = resolve("pocket", [*OVERRIDES, *models, f"engine.kind={kind}", f"teacher.kind={kind}"])
    summary = train(config, tmp_path / "run")
    lines: list[dict[str, Any]] = list(read_metrics(tmp_path / "run"))
    first, second = [line for line in lines if line["type"] == "update"]
    # The student is the teacher, so at first they agree on every token; after an update they no longer do. Scores
    # under stale weights, or of other tokens than those sampled, would show in the first; a sync that did nothing
    # would leave the second at zero.
    assert abs(first["reverse_kl"]) < 1e-3
    assert abs(first["loss"]) < 1e-3
    assert 1e-6 < abs(second["reverse_kl"]) < 1.0
    assert math.isfinite(second["grad_norm"])
    # Inserted tokens are not trained on: with them, responses may be longer than what was generated.
    generated_at_most = LIMITS["first_stage"] + LIMITS["continuation"]
    assert 0 < first["supervised_tokens"] <= len(first["sample_ids"]) * generated_at_most
    assert summary.updates == 2
    assert summary.success_rate.after is not None
    assert any((tmp_path / "run" / "checkpoints").iterdir())
