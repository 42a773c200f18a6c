"""Utilisation over time (paper, Figures "Rollout latency and quality" (c) and "Rollout efficiency" (c, d))."""

from __future__ import annotations

import json
import sys
import threading
from types import SimpleNamespace

import pytest

from actfirst.errors import RunFolderError
from actfirst.runs.utilisation import UtilisationLine, one_history
from actfirst.training import utilisation
from actfirst.training.utilisation import Utilisation, find_gpus, part_seconds, pause, percent


def test_one_sample_a_second_for_ten_minutes_then_one_every_five() -> None:
    assert (pause(0.0), pause(599.0), pause(600.0), pause(36000.0)) == (1.0, 1.0, 5.0, 5.0)


def test_samples_stay_small() -> None:
    """What the module promises: about 110 bytes a line, 80 kB an hour."""
    parts = dict.fromkeys(("engine", "learner", "other", "workers"), 1234.5)
    line = UtilisationLine(seconds=123456.78, gpus=(100.0,) * 8, parts=parts)
    assert len(json.dumps(line.to_json(), separators=(",", ":"))) < 180
    without = UtilisationLine(seconds=123456.78, parts=parts)
    assert len(json.dumps(without.to_json(), separators=(",", ":"))) < 115


def test_time_is_told_by_the_part_whose_thread_used_it() -> None:
    stop, burnt = threading.Event(), threading.Event()

    def burn() -> None:
        while not stop.is_set():
            burnt.set() if part_seconds()["learner"] - before["learner"] > 0.2 else sum(range(10_000))

    before = part_seconds()
    thread = threading.Thread(target=burn, name="learner_0")
    thread.start()
    assert burnt.wait(60)
    after = part_seconds()
    stop.set()
    thread.join()
    assert after["learner"] - before["learner"] > 0.2
    assert after["engine"] == before["engine"]


def test_percent_is_of_one_core_and_never_negative() -> None:
    assert percent({"engine": 1.0, "workers": 5.0}, {"engine": 4.0, "workers": 2.0}, 2.0) == {
        "engine": 150.0,
        "workers": 0.0,
    }


def test_gpus_are_read_by_nvml_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that knows two GPUs, of which one fails when it is asked."""

    class NVMLError(Exception):
        pass

    def rates(handle: int) -> SimpleNamespace:
        if handle == 1:
            raise NVMLError
        return SimpleNamespace(gpu=97)

    fake = SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda place: place,
        nvmlDeviceGetUtilizationRates=rates,
        NVMLError=NVMLError,
    )
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    assert [gpu() for gpu in find_gpus()] == [97.0, 0.0]
    monkeypatch.setitem(sys.modules, "pynvml", None)  # not installed
    assert find_gpus() == []


def test_a_run_goes_on_when_a_sample_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(utilisation, "pause", lambda seconds: 0.001)
    told: list[UtilisationLine] = []
    enough = threading.Event()

    def keep(line: UtilisationLine) -> None:
        told.append(line)
        if len(told) == 3:
            enough.set()
            raise RunFolderError("no space left")

    sampler = Utilisation(lambda: 7.0, keep, gpus=[lambda: 50.0, lambda: 100.0])
    sampler.close()  # before it began
    sampler = Utilisation(lambda: 7.0, keep, gpus=[lambda: 50.0, lambda: 100.0])
    sampler.start()
    assert enough.wait(60)
    sampler.close()
    sampler.close()
    assert len(told) == 3
    assert (told[0].seconds, told[0].busy) == (7.0, 75.0)
    assert set(told[0].parts) == {"engine", "learner", "other", "workers"}


def test_busy_is_the_mean_of_gpus_or_the_sum_of_parts() -> None:
    parts = {"engine": 90.0, "learner": 60.0}
    assert UtilisationLine(seconds=1.0, parts=parts).busy == 150.0
    assert UtilisationLine(seconds=1.0, gpus=(20.0, 40.0), parts=parts).busy == 30.0


def test_what_a_resumed_run_took_back_is_left_out() -> None:
    lines = [UtilisationLine(seconds=float(second)) for second in (1, 2, 3, 4, 3, 4, 5)]
    assert [line.seconds for line in one_history(lines)] == [1.0, 2.0, 3.0, 4.0, 5.0]
