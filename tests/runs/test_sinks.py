"""Metric services are optional: each is imported when asked for, and a missing one says what to install."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from actfirst.config.runtime_sections import TrackingSection
from actfirst.errors import ConfigError
from actfirst.runs.sinks import SINKS, Tracked, open_sinks


def tracked(folder: Path) -> Tracked:
    return Tracked(folder, "houses", "third try", {"run": {"seed": 42}})


@pytest.mark.parametrize("name", SINKS)
def test_a_missing_service_names_the_extra_to_install(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, None)  # importing it now fails
    with pytest.raises(ConfigError, match=rf"pip install 'actfirst\[{name}\]'"):
        open_sinks([name], tracked(tmp_path))


def test_every_sink_that_a_recipe_may_name_exists() -> None:
    assert TrackingSection(sinks=tuple(SINKS)).sinks == ("tensorboard", "wandb", "trackio")  # type: ignore[arg-type]


def test_no_sinks_is_nothing_to_open(tmp_path: Path) -> None:
    assert open_sinks([], tracked(tmp_path)) == []


class FakeService(ModuleType):
    """Has the calls of wandb and trackio that the sinks use, and remembers them."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.settings: dict[str, object] = {}
        self.logged: list[tuple[int, dict[str, object]]] = []
        self.finished = False
        self.Table = dict

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
    (sink,) = open_sinks([name], tracked(tmp_path))
    sink.log(1, {"loss": 0.5})
    sink.log(2, {"loss": 0.25, "reverse_kl": 0.1})
    sink.close()
    assert service.logged == [(1, {"loss": 0.5}), (2, {"loss": 0.25, "reverse_kl": 0.1})]
    assert service.finished
    assert service.settings["project"] == "houses"
    assert service.settings["name"] == "third try"
    assert service.settings["config"] == {"run": {"seed": 42}}


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_a_table_reaches_the_service_as_its_own_kind_of_table(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = FakeService(name)
    monkeypatch.setitem(sys.modules, name, service)
    (sink,) = open_sinks([name], tracked(tmp_path))
    sink.table(3, "rollout/samples", ("task", "success"), [["a", "yes"]])
    ((step, values),) = service.logged
    assert (step, values) == (3, {"rollout/samples": {"columns": ["task", "success"], "data": [["a", "yes"]]}})


@pytest.mark.parametrize(("said", "mode"), [(None, "offline"), ("online", "online")])
def test_wandb_stays_offline_unless_told_otherwise(
    said: str | None, mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = FakeService("wandb")
    monkeypatch.setitem(sys.modules, "wandb", service)
    monkeypatch.delenv("WANDB_MODE", raising=False)
    if said is not None:
        monkeypatch.setenv("WANDB_MODE", said)
    open_sinks(["wandb"], tracked(tmp_path))
    assert service.settings["mode"] == mode


def test_tensorboard_writes_what_tensorboard_reads(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (sink,) = open_sinks(["tensorboard"], tracked(tmp_path))
    sink.log(1, {"loss": 0.5})
    sink.log(2, {"loss": 0.25})
    sink.table(2, "rollout/samples", ("task", "transcript"), [["a", "<b>look | go</b>\n> wait"]])
    sink.close()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 0.5), (2, 0.25)]
    assert events.Tags()["tensors"] == ["rollout/samples/text_summary"]
    (shown,) = events.Tensors("rollout/samples/text_summary")
    cell = shown.tensor_proto.string_val[0].decode().splitlines()[2]
    assert cell == "| a | &lt;b&gt;look &#124; go&lt;/b&gt;<br>&gt; wait |", "text of a model is no markup"
