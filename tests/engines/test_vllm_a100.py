"""What vLLM makes of the paper's recipes on an A100, without one: all is resolved, nothing computed.

After a wanted change: python -m tests.support.fake_a100 > tests/engines/golden/vllm_a100.json
"""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("vllm", reason="vLLM is not installed here", exc_type=ImportError)

from actfirst.engines.vllm.core import scoring
from actfirst.engines.vllm.work import Scoring

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "golden" / "vllm_a100.json"


def golden() -> dict[str, dict[str, dict[str, Any]]]:
    found: dict[str, dict[str, dict[str, Any]]] = json.loads(GOLDEN.read_text(encoding="utf-8"))
    return found


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_vllm_resolves_every_recipe_of_the_paper_as_it_did() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.fake_a100"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert json.loads(done.stdout) == golden()


def test_every_student_and_teacher_of_the_paper_runs_as_the_docs_say() -> None:
    parts = {f"{recipe} {part}": found for recipe, both in golden().items() for part, found in both.items()}
    assert len(parts) > 15
    for name, found in parts.items():
        assert found["newer model runner"], name
        assert found["asynchronous scheduling"], name
        assert found["chunked prefill"], name
        assert found["log-probs"] == "processed_logprobs", name
        assert found["compilation"] == "VLLM_COMPILE", name
        assert found["weight transfer"] == "actfirst", name


def test_a_teacher_is_asked_for_given_places_only_where_vllm_can() -> None:
    """vLLM itself checks what it is asked for: one row for each token after the prompt but the last."""
    work = Scoring((1, 2, 3, 5, 6, 7), 3)
    asked = scoring(work, places=True)
    assert asked.prompt_logprobs is None
    assert asked.prompt_logprob_start == 2
    assert asked.prompt_logprob_token_ids is not None
    assert [list(row) for row in asked.prompt_logprob_token_ids] == [[5], [6]]
    assert asked.logprob_token_ids == [7]
    assert asked.skip_reading_prefix_cache  # cached places would have no log-probs
    whole = scoring(work, places=False)
    assert (whole.prompt_logprobs, whole.prompt_logprob_token_ids) == (0, None)
    alone = scoring(Scoring((1, 2, 7), 2), places=True)
    assert (alone.prompt_logprobs, alone.prompt_logprob_token_ids) == (None, None)


def test_the_engine_is_pinned_to_the_vllm_whose_inside_it_uses() -> None:
    vllm = [line for line in requires("actfirst") or [] if line.startswith("vllm") and "extra ==" in line]
    assert vllm
    assert all("0.32" in line for line in vllm), vllm
