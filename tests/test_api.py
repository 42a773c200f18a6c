"""What a notebook imports."""

from __future__ import annotations

import asyncio
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import actfirst
from actfirst.config.load import resolve
from tests.support.tiny_run import overrides


def test_importing_it_loads_nothing_else() -> None:
    loaded = "import sys, actfirst; print(*sorted(name for name in sys.modules if name.startswith('actfirst')))"
    shown = subprocess.run([sys.executable, "-c", loaded], capture_output=True, text=True, check=True)
    assert shown.stdout.split() == ["actfirst"]


@pytest.mark.parametrize("place", ["a script", "a notebook"])
async def test_a_recipe_is_loaded_trained_and_evaluated(tmp_path: Path, place: str) -> None:
    settings = overrides(tmp_path / "models", "run.updates=1", "evaluation.tasks_per_split=2")
    config = actfirst.load_recipe("pocket", *settings)
    assert config == resolve("pocket", settings)

    def use() -> None:
        assert actfirst.train(config, tmp_path / "run").updates == 1
        assert actfirst.evaluate_model(tmp_path / "run", config).overall.tasks == 2
        assert actfirst.open_run(tmp_path / "run").summary.updates == 1

    if place == "a notebook":  # its event loop is running, as that of this test
        use()
    else:
        await asyncio.to_thread(use)


@pytest.mark.parametrize("name", sorted(set(actfirst.__all__) - {"__version__"}))
def test_a_public_call_has_types_and_says_what_it_does(name: str) -> None:
    call = getattr(actfirst, name)
    untyped = [part for part in inspect.signature(call).parameters if part not in call.__annotations__]
    assert untyped == []
    assert "return" in call.__annotations__
    assert len(inspect.getdoc(call) or "") > 100
