"""A cap too small for overlap is found, and then acting first gives way to think-then-act."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from actfirst.methods.acting import TrainingPoint
from actfirst.records import ActionSource, EngineStats
from actfirst.rollout.pacing import Load, Pacer
from tests.support.collecting import bench, corridor_tasks, perfect

NOTHING = EngineStats(0, 0, 0, 0, 0, 0, 0.0, 0, 0)


def measured(fast: float, full: float) -> EngineStats:
    return replace(NOTHING, fast_ended=10, fast_seconds=10 * fast, full_ended=4, full_seconds=4 * full)


def taught(cap: int, fast: float, full: float) -> Pacer:
    """A pacer that has seen one batch: ten fast actions and four responses."""
    pacer = Pacer(cap)
    pacer.learn(NOTHING, measured(fast, full), responses=4)
    return pacer


def test_the_bounds_of_the_paper() -> None:
    """N = 16, T = 30, l_fast = 1, l_full = 8: eq. (finite-capacity-time-bound) by hand."""
    load = Load(tasks=16, turns=30, responses=480, cap=16, fast=1.0, full=8.0)
    assert load.overlapped == 480 * 9 / 16 == 270
    assert load.sequential == 240
    assert not load.overlap_pays
    wide = replace(load, cap=256)
    assert wide.overlapped == 29 + 8
    assert wide.sequential == 240
    assert wide.overlap_pays


@pytest.mark.parametrize(("cap", "pays"), [(16, False), (18, False), (19, True), (8, False)])
def test_overlap_pays_from_the_cap_that_the_paper_names(cap: int, pays: bool) -> None:
    """b_max > N (1 + l_fast / l_full) = 16 * 1.125 = 18."""
    assert Load(16, 30, 480, cap, 1.0, 8.0).overlap_pays is pays


def test_admission_makes_overlap_pay_even_under_a_cap_of_one_request_for_each_task() -> None:
    assert Load(tasks=16, turns=30, responses=64, cap=16, fast=1.0, full=8.0).overlap_pays


def test_the_pacer_judges_by_what_the_engine_measured_and_stays_with_it() -> None:
    assert Pacer(cap=16).acts_first(16, 480.0, float("inf"))
    pacer = taught(16, 1.0, 8.0)
    assert pacer.acts_first(16, 480.0, 64.0)
    assert not pacer.acts_first(16, 480.0, float("inf"))
    pacer.learn(NOTHING, measured(0.001, 8.0), responses=4)
    assert not pacer.acts_first(16, 480.0, 64.0)


def test_what_an_engine_did_between_batches_is_not_measured() -> None:
    """An evaluation asks the same engine for full responses as urgently as for fast actions: 1,000 of 8 s."""
    pacer = Pacer(cap=256)
    evaluated = replace(NOTHING, fast_ended=1000, fast_seconds=8000.0)
    after = replace(evaluated, fast_ended=1010, fast_seconds=8010.0, full_ended=8, full_seconds=32.0)
    pacer.learn(evaluated, after, responses=4)  # a response took two requests
    assert pacer.acts_first(16, 480.0, float("inf"))
    assert not Load(16, 30, 480, 256, 8010 / 1010, 32 / 8).overlap_pays  # as it would look with them


@pytest.mark.parametrize(("cap", "source"), [(8, ActionSource.THINK), (64, ActionSource.INVERSE_DYNAMICS)])
def test_a_paced_collector_acts_by_its_full_responses_where_the_cap_is_too_small(
    cap: int, source: ActionSource, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = bench("actfirst", perfect)
    monkeypatch.setattr(made.engine, "stats", lambda: NOTHING, raising=False)
    collector = replace(made.collector, pacer=taught(cap, 1.0, 8.0))
    batch = asyncio.run(collector.collect(0, corridor_tasks(8), TrainingPoint(), 28.0))
    assert {turn.source for episode in batch.episodes for turn in episode.turns} == {source}
    assert len(batch.samples) == batch.stats.contexts == 28
    assert (batch.stats.fast_requests == 0) is (source is ActionSource.THINK)
