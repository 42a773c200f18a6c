"""Checkpoints beside the loop: who waits for what, and when a failure is heard. The clock plays no part."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence, Set
from typing import Any

import pytest

from actfirst.config.runtime_sections import CheckpointSection
from actfirst.errors import CheckpointError
from actfirst.records import TurnSample
from actfirst.training.checkpoints import Checkpoints
from actfirst.training.clock import StageClock
from tests.training.fake_actors import settled


class Disk:
    """A learner whose writes end when the disk is `free`."""

    def __init__(self) -> None:
        self.version = 0
        self.free = asyncio.Event()
        self.taken: list[tuple[int, Mapping[str, object], bool]] = []
        self.written: list[tuple[int, int, Set[int]]] = []
        self.failure: Exception | None = None

    async def take(
        self, samples: Sequence[TurnSample], trainer_state: Mapping[str, object], copy: bool
    ) -> None:
        self.taken.append((self.version, trainer_state, copy))

    async def write(self, keep: int, also: Set[int], export: bool) -> None:
        version = self.taken[-1][0]
        await self.free.wait()
        if self.failure is not None:
            raise self.failure
        self.written.append((version, keep, also))


Told = tuple[Disk, Checkpoints, list[str]]


def told(background: bool = True) -> Told:
    disk, log = Disk(), list[str]()
    settings = CheckpointSection(keep=3, background=background)
    return disk, Checkpoints(disk, settings, StageClock(), log.append, stored=0), log


def in_loop(work: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(work(), 60))


async def store(disk: Disk, checkpoints: Checkpoints, version: int) -> None:
    disk.version = version
    await checkpoints.save((), lambda: {"at": version}, {7})


def test_the_loop_goes_on_while_a_copy_is_written_and_the_log_says_when_it_is_whole() -> None:
    async def work() -> None:
        disk, checkpoints, log = told()
        await store(disk, checkpoints, 2)
        disk.version = 3  # the loop has gone on
        await settled()
        assert (disk.taken, disk.written, checkpoints.stored, log) == ([(2, {"at": 2}, True)], [], 0, [])
        disk.free.set()
        await checkpoints.settle()
        assert (disk.written, checkpoints.stored) == ([(2, 3, {7})], 2)
        assert log == ["checkpoint of update 2"]

    in_loop(work)


def test_the_next_checkpoint_waits_until_the_one_before_is_written_and_is_taken_only_then() -> None:
    async def work() -> None:
        disk, checkpoints, _ = told()
        await store(disk, checkpoints, 2)
        second = asyncio.create_task(store(disk, checkpoints, 4))
        await settled()
        assert not second.done()
        assert [version for version, *_ in disk.taken] == [2]
        disk.free.set()
        await second
        await checkpoints.settle()
        assert [version for version, *_ in disk.written] == [2, 4]

    in_loop(work)


def test_without_background_the_loop_waits_and_nothing_is_copied() -> None:
    async def work() -> None:
        disk, checkpoints, _ = told(background=False)
        first = asyncio.create_task(store(disk, checkpoints, 2))
        await settled()
        assert not first.done()
        disk.free.set()
        await first
        assert [(version, copy) for version, _, copy in disk.taken] == [(2, False)]
        assert checkpoints.stored == 2

    in_loop(work)


def test_a_write_that_failed_is_raised_once_and_counts_for_nothing() -> None:
    async def work() -> None:
        disk, checkpoints, log = told()
        disk.failure = CheckpointError("the disk is full")
        await store(disk, checkpoints, 2)
        checkpoints.check()  # not known yet
        disk.free.set()
        await settled()
        with pytest.raises(CheckpointError, match="the disk is full"):
            checkpoints.check()
        checkpoints.check()
        assert (checkpoints.stored, log) == (0, [])

    in_loop(work)


def test_closing_waits_for_the_write_and_leaves_the_report_to_what_ended_the_run() -> None:
    async def work() -> None:
        disk, checkpoints, _ = told()
        await store(disk, checkpoints, 2)
        closing = asyncio.create_task(checkpoints.close())
        await settled()
        assert not closing.done()
        disk.failure = CheckpointError("the disk is full")
        disk.free.set()
        await closing

    in_loop(work)
