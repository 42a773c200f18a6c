"""What commands load: importing transformers, the compiler of torch or matplotlib takes seconds that nobody needs."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SEVERAL = """
import sys
from actfirst.cli.main import main
for arguments in (
    ["train", "pocket", "run.updates=1", "rollout.tasks_per_batch=4", "learner.batch_size=4",
     "evaluation.at_start=false", "evaluation.at_end=false", "evaluation.teacher=false", "--run", "run"],
    ["eval", "pocket:student", "--tasks", "1"],
    ["play", "pocket", "--model", "pocket:student"],
):
    try:
        main(arguments)
    except SystemExit as end:
        assert not end.code, arguments
print("LOADED", *sys.modules, file=sys.stderr)
"""
HEAVY = (
    "transformers",
    "torch._dynamo",
    "torch._inductor",
    "torch.distributed.fsdp",
    "sympy",
    "matplotlib",
    "peft",
    "ray",
    "vllm",
)


def test_training_evaluating_and_playing_load_nothing_heavy(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SEVERAL], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    loaded = set(done.stderr.rpartition("LOADED ")[2].split())
    assert "torch" in loaded
    assert not loaded.intersection(HEAVY)
