"""Methods of other packages: one announced by an entry point is listed, configured and trained."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from actfirst.config.load import dump_toml, resolve
from actfirst.errors import ConfigError
from actfirst.methods.acting import ThinkThenAct
from actfirst.methods.depth import FullDepth
from actfirst.methods.table import METHODS, Method, ResponseTiming, method_of, register_method
from actfirst.runs.run_folder import read_metrics
from tests.cli.runner import run
from tests.environments.test_plugins import install
from tests.support.tiny_run import overrides

DOCS = Path(__file__).parents[2] / "docs" / "methods.md"


def documented() -> str:
    """The module of the documentation that holds a method of another package."""
    blocks = re.findall(r"^```python\n(.*?)^```", DOCS.read_text(), re.MULTILINE | re.DOTALL)
    (module,) = [block for block in blocks if "Configured(" in block]
    return str(module)


@pytest.fixture
def rewarded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The method of the documentation, installed."""
    site = tmp_path / "site-packages"
    site.mkdir()
    install(site, "rewarded", documented(), "[actfirst.methods]\nreward-only = rewarded:REWARD_ONLY\n")
    monkeypatch.syspath_prepend(site)
    yield site
    sys.modules.pop("rewarded", None)


def test_it_is_listed_and_trained_through_the_command_line(
    rewarded: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    listed = run(capsys, "methods").out
    assert re.search(r"^reward-only +Reward only .*Success\(scale 1\.0\)", listed, re.MULTILINE)
    folder = tmp_path / "run"
    settings = overrides(
        tmp_path, "rollout.method=reward-only", "methods.reward_only.scale=2.0", "run.updates=1"
    )
    shown = run(capsys, "train", "pocket", *settings, "--run", str(folder))
    assert shown.code == 0, shown.err
    assert "Reward only" in shown.out + shown.err
    (update,) = [line for line in read_metrics(folder) if line["type"] == "update"]
    assert {"loss", "advantage"} <= update.keys()
    assert "mean_reward" in update["extra"]
    assert update["reverse_kl"] is None
    assert (
        "[methods.reward_only]\nscale = 2.0  # what a success is worth" in (folder / "config.toml").read_text()
    )
    assert run(capsys, "report", str(folder), "--out", str(tmp_path / "report")).code == 0


class TestConstants:
    def test_a_recipe_sets_them_and_they_are_kept(self, rewarded: Path, tmp_path: Path) -> None:
        config = resolve("pocket", ["rollout.method=reward-only", "methods.reward_only.scale=3.0"])
        assert "scale=3.0" in repr(method_of(config.rollout.method, config.methods).objective)
        (tmp_path / "again.toml").write_text(dump_toml(config))
        assert resolve(tmp_path / "again.toml") == config

    def test_the_run_s_own_are_written_down_also_where_nobody_set_them(self, rewarded: Path) -> None:
        assert "[methods.reward_only]\nscale = 1.0" in dump_toml(
            resolve("pocket", ["rollout.method=reward-only"])
        )
        assert "reward_only" not in dump_toml(resolve("pocket"))

    def test_mistakes_in_them_are_reported_like_all_others(self, rewarded: Path) -> None:
        wrong = ["methods.reward_only.scale=much", "methods.reward_only.scal=1.0", "methods.tcod_f2b.every=0"]
        with pytest.raises(ConfigError) as raised:
            resolve("pocket", wrong)
        assert "3 mistakes" in str(raised.value)
        assert 'methods.reward_only.scale = "much" (command line): must be a finite number' in str(raised.value)
        assert "methods.reward_only.scal = 1.0" in str(raised.value)
        assert "did you mean methods.reward_only.scale?" in str(raised.value)

    def test_a_method_that_nobody_has_or_that_has_none_has_no_constants(self, rewarded: Path) -> None:
        with pytest.raises(ConfigError, match=r"methods\.tcod_f2c.*did you mean methods\.tcod_f2b"):
            resolve("pocket", ["methods.tcod_f2c.every=3"])
        with pytest.raises(ConfigError, match=r"methods\.vanilla.*the method vanilla has no constants"):
            resolve("pocket", ["methods.vanilla.every=3"])


def test_nothing_is_loaded_before_a_recipe_names_it(rewarded: Path) -> None:
    install(rewarded, "broken", "import no_such_module\n", "[actfirst.methods]\nbroken = broken:ROW\n")
    assert {"reward-only", "broken"} <= set(METHODS)
    resolve("pocket")
    assert "rewarded" not in sys.modules
    with pytest.raises(
        ConfigError, match=r"the method broken \(broken:ROW\) does not load: ModuleNotFoundError"
    ):
        resolve("pocket", ["rollout.method=broken"])


def test_a_broken_package_does_not_hide_the_other_methods(
    rewarded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(rewarded, "odd_row", "ROW = 3\n", "[actfirst.methods]\nodd = odd_row:ROW\n")
    shown = run(capsys, "methods")
    assert "reward-only" in shown.out
    assert "odd (odd_row:ROW) is neither a Method nor a Configured" in shown.err


def test_a_notebook_registers_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("actfirst.methods.table._REGISTERED", {})
    mine = Method("Mine", ThinkThenAct(), ResponseTiming.INLINE)
    register_method("mine", mine)
    config = resolve("pocket", ["rollout.method=mine"])
    assert METHODS["mine"] is method_of(config.rollout.method, config.methods) is mine
    assert mine.depth == FullDepth()
    with pytest.raises(ConfigError, match="vanilla is part of actfirst"):
        register_method("vanilla", mine)
