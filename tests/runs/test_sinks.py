"""Metric services are optional: each is imported when asked for, and a missing one says what to install."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from actfirst.config.sections import TrackingSection
from actfirst.errors import ConfigError
from actfirst.runs.sinks import SINKS, open_sinks


@pytest.mark.parametrize("name", SINKS)
def test_a_missing_service_names_the_extra_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # importing it now fails
    with pytest.raises(ConfigError, match=rf"pip install 'actfirst\[{name}\]'"):
        open_sinks([name], tmp_path)


def test_every_sink_that_a_recipe_may_name_exists() -> None:
    assert TrackingSection(sinks=tuple(SINKS)).sinks == ("tensorboard", "wandb", "trackio")  # type: ignore[arg-type]


def test_no_sinks_is_nothing_to_open(tmp_path: Path) -> None:
    assert open_sinks([], tmp_path) == []


class FakeService(ModuleType):
    """Has the calls of wandb and trackio that the sinks use, and remembers them."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.settings: dict[str, object] = {}
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.finished = False

    def init(self, **settings: object) -> SimpleNamespace:
        self.settings = settings
        return SimpleNamespace(
            log=lambda values, step: self.logged.append((step, values)),
            finish=lambda: setattr(self, "finished", True),
        )


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_metrics_reach_the_service_with_their_step(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = FakeService(name)
    monkeypatch.setitem(sys.modules, name, service)
    (sink,) = open_sinks([name], tmp_path / "pocket-3")
    sink.log(1, {"loss": 0.5})
    sink.log(2, {"loss": 0.25, "reverse_kl": 0.1})
    sink.close()
    assert service.logged == [(1, {"loss": 0.5}), (2, {"loss": 0.25, "reverse_kl": 0.1})]
    assert service.finished
    assert service.settings["project"] == "actfirst"
    assert service.settings["name"] == "pocket-3"


@pytest.mark.parametrize(("said", "mode"), [(None, "offline"), ("online", "online")])
def test_wandb_stays_offline_unless_told_otherwise(
    said: str | None, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = FakeService("wandb")
    monkeypatch.setitem(sys.modules, "wandb", service)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    if said is not None:
        monkeypatch.setenv("WANDB_MODE", said)
    open_sinks(["wandb"], tmp_path)
    assert service.settings["mode"] == mode


def test_tensorboard_writes_what_tensorboard_reads(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (sink,) = open_sinks(["tensorboard"], tmp_path)
    sink.log(1, {"loss": 0.5})
    sink.log(2, {"loss": 0.25})
    sink.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]
