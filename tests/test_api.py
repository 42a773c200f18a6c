"""What a notebook imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import actfirst
from actfirst.config.load import resolve
from tests.support.tiny_run import overrides


def test_importing_it_loads_nothing_else() -> None:
    loaded = "import sys, actfirst; print(*sorted(name for name in sys.modules if name.startswith('actfirst')))"
    shown = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["actfirst"]


def test_a_recipe_is_loaded_trained_and_evaluated(tmp_path: Path) -> None:
    settings = overrides(tmp_path / "models", "run.updates=1", "evaluation.tasks_per_split=2")
    config = actfirst.load_recipe("pocket", *settings)
    assert config == resolve("pocket", settings)
    assert actfirst.train(config, tmp_path / "run").updates == 1
    assert actfirst.evaluate_model(tmp_path / "run", config).overall.tasks == 2
