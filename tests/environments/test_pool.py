"""The pool of worker processes: deadlines, crashes, restarts, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import psutil
import pytest

from actfirst.config.runtime_sections import PoolSection
from actfirst.environments.alfworld.section import AlfworldSection
from actfirst.environments.base import AsyncEnvironment, EnvironmentPool
from actfirst.environments.pocket.section import PocketSection
from actfirst.environments.pool.inline import InlinePool
from actfirst.environments.pool.pool import ProcessPool, open_pool
from actfirst.environments.registry import open_world
from actfirst.errors import ConfigError, EnvironmentFailure, WorkerLost
from actfirst.records import Task
from tests.support.misbehaving import misbehaving, not_here

LIMITS = PoolSection(workers=2, environments_per_worker=1, start_seconds=30, reset_seconds=20, step_seconds=20)


def task(how: str, rooms: int = 3) -> Task:
    return Task(f"corridor/{how}/{rooms}-000", "train", "rooms")


def limits(**changes: float) -> PoolSection:
    return LIMITS.model_copy(update=changes)


@asynccontextmanager
async def opened(folder: Path, **changes: float) -> AsyncIterator[ProcessPool]:
    pool = ProcessPool(misbehaving(folder), limits(**changes))
    try:
        yield pool
    finally:
        processes = [psutil.Process(pid) for pid in pool.processes]
        await pool.close()
        assert not [process for process in processes if process.is_running()]


@pytest.fixture
def left_behind(tmp_path: Path) -> Iterator[Path]:
    """A folder that holds the number of a process which outlives its worker; ended here."""
    yield tmp_path
    psutil.Process(int((tmp_path / "child").read_text())).kill()


async def through(environment: AsyncEnvironment, rooms: int = 3) -> None:
    for _ in range(rooms - 1):
        await environment.step("go east")
    assert (await environment.step("pull lever")).success


async def test_an_episode_is_played_as_in_this_process(tmp_path: Path) -> None:
    async def walk(pool: EnvironmentPool) -> list[object]:
        async with pool.lease() as environment:
            seen: list[object] = [await environment.reset(task("plain"))]
            seen += [await environment.step(action) for action in ("go east", "dance", "go east", "pull lever")]
        return seen

    async with opened(tmp_path) as pool:
        assert await walk(pool) == await walk(InlinePool(misbehaving(tmp_path)()))


async def test_steps_of_different_tasks_do_not_wait_for_each_other(tmp_path: Path) -> None:
    """Eight environments of one worker wait for each other in every step: in turn, none would end."""

    async def play(pool: ProcessPool) -> None:
        async with pool.lease() as environment:
            await environment.reset(task("meet"))
            await through(environment)

    async with opened(tmp_path, workers=1, environments_per_worker=8, step_seconds=600) as pool:
        await asyncio.gather(*(play(pool) for _ in range(8)))
        assert len(pool.processes) == 1


async def test_workers_start_when_they_are_needed_and_are_used_again(tmp_path: Path) -> None:
    async with opened(tmp_path) as pool:
        assert pool.processes == []
        for _ in range(3):
            async with pool.lease() as environment:
                await environment.reset(task("plain"))
        (first,) = pool.processes
        async with pool.lease() as one, pool.lease() as two:
            await asyncio.gather(one.reset(task("plain")), two.reset(task("plain")))
            assert len(pool.processes) == 2
            assert first in pool.processes


async def test_a_lease_beyond_the_limit_waits_for_a_place(tmp_path: Path) -> None:
    async with opened(tmp_path, workers=1) as pool:
        begun = asyncio.Event()

        async def second() -> None:
            async with pool.lease() as environment:
                begun.set()
                await environment.reset(task("plain"))

        async with pool.lease() as environment:
            await environment.reset(task("plain"))
            waiting = asyncio.ensure_future(second())
            for _ in range(20):
                await asyncio.sleep(0)
            assert not begun.is_set()
        await waiting
        assert begun.is_set()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("crash", r"the worker process ended \(SIGKILL\); it said: .*segmentation fault, as it were"),
        ("hang", r"step 'go east' took longer than 0.5 s; its worker process was ended"),
        ("raise", r"step 'go east': RuntimeError: simulator gone"),
    ],
)
async def test_a_failure_is_named_and_the_next_lease_works(tmp_path: Path, how: str, message: str) -> None:
    async with opened(tmp_path, workers=1) as pool:
        async with pool.lease() as environment:
            await environment.reset(task("plain"))
        pool._settings = limits(workers=1, step_seconds=0.5)  # the start is over: only steps are to be late
        async with pool.lease() as environment:
            await environment.reset(task(how))
            with pytest.raises(EnvironmentFailure, match=message):
                await environment.step("go east")
        async with pool.lease() as environment:
            await environment.reset(task("plain"))
            await through(environment)


async def test_the_other_environments_of_a_lost_worker_fail_with_the_cause(tmp_path: Path) -> None:
    async with opened(tmp_path, workers=1, environments_per_worker=3) as pool:
        async with pool.lease() as idle, pool.lease() as busy, pool.lease() as hung:
            await asyncio.gather(idle.reset(task("plain")), busy.reset(task("slow")), hung.reset(task("hang")))
            pool._settings = limits(step_seconds=0.4)
            hung._settings = pool._settings  # type: ignore[attr-defined]
            late, waiting = await asyncio.gather(
                hung.step("go east"), _repeat(busy, "go west"), return_exceptions=True
            )
            with pytest.raises(EnvironmentFailure, match="another environment hung") as told:
                await idle.step("go east")
        assert "took longer than 0.4 s" in str(late)
        assert "another environment hung" in str(waiting)
        assert "step 'go east'" in str(told.value)
        assert [type(error) for error in (late, waiting, told.value)] == [
            EnvironmentFailure,
            WorkerLost,
            WorkerLost,
        ]
        async with pool.lease() as environment:
            await environment.reset(task("plain"))
            await through(environment)


async def test_a_call_that_is_older_than_the_late_one_is_a_suspect_too(tmp_path: Path) -> None:
    """Where environments of a worker take turns, the late call may have waited for the older one."""
    async with opened(tmp_path, workers=1, environments_per_worker=2) as pool:
        async with pool.lease() as older, pool.lease() as late:
            await late.reset(task("hang"))
            late._settings = limits(step_seconds=0.4)  # type: ignore[attr-defined]
            told = await asyncio.gather(
                older.reset(task("slow-reset")), late.step("go east"), return_exceptions=True
            )
        assert [type(error) for error in told] == [EnvironmentFailure, EnvironmentFailure]


async def test_of_a_crash_only_those_are_suspects_whose_call_was_in_flight(left_behind: Path) -> None:
    """`idle` has a process that holds stderr open, so that it takes a second until the crash is announced."""
    async with opened(left_behind, workers=1, environments_per_worker=3) as pool:
        async with pool.lease() as idle, pool.lease() as busy, pool.lease() as crashing:
            for environment, how in ((idle, "daemon"), (busy, "hang"), (crashing, "crash")):
                await environment.reset(task(how))
            process = pool._workers[0].process._process
            assert process is not None
            assert process.stdout is not None
            calls = [asyncio.ensure_future(one.step("go east")) for one in (busy, crashing)]
            while not process.stdout.at_eof():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0)
            with pytest.raises(WorkerLost, match=r"the worker process ended \(SIGKILL\)"):
                await idle.step("go east")
            told = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(error) for error in told] == [EnvironmentFailure, EnvironmentFailure]


async def test_a_crash_while_nobody_calls_is_held_against_everybody(tmp_path: Path) -> None:
    async with (
        opened(tmp_path, workers=1, environments_per_worker=2) as pool,
        pool.lease() as one,
        pool.lease() as other,
    ):
        for environment in (one, other):
            await environment.reset(task("plain"))
        (pid,) = pool.processes
        os.kill(pid, signal.SIGKILL)
        while pool.processes:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        for environment in (one, other):
            with pytest.raises(EnvironmentFailure) as told:
                await environment.step("go east")
            assert type(told.value) is EnvironmentFailure


async def _repeat(environment: AsyncEnvironment, action: str) -> None:
    while True:
        await environment.step(action)


async def test_an_environment_that_failed_is_closed_and_its_neighbours_play_on(tmp_path: Path) -> None:
    async with opened(tmp_path, workers=1, environments_per_worker=2) as pool:
        async with pool.lease() as good:
            await good.reset(task("plain"))
            async with pool.lease() as bad:
                await bad.reset(task("raise"))
                with pytest.raises(EnvironmentFailure):
                    await bad.step("go east")
            async with pool.lease() as fresh:
                await fresh.reset(task("plain"))
            await through(good)
        assert (tmp_path / "closed").exists()


async def test_a_cancelled_episode_gives_its_place_back(tmp_path: Path) -> None:
    async with opened(tmp_path, workers=1, environments_per_worker=2) as pool:

        async def interrupted() -> None:
            async with pool.lease() as environment:
                await environment.reset(task("slow"))
                await environment.step("go east")

        for _ in range(3):
            (tmp_path / "in-slow").unlink(missing_ok=True)
            playing = asyncio.ensure_future(interrupted())
            await exists(tmp_path / "in-slow")
            playing.cancel()
            await asyncio.wait([playing])
            assert playing.cancelled()
        async with pool.lease() as one, pool.lease() as other:
            for environment in (one, other):
                await environment.reset(task("plain"))
                await through(environment)


async def test_an_interrupted_reset_has_its_own_time_to_end_before_its_environment_is_closed(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, workers=1, environments_per_worker=2) as pool, pool.lease() as neighbour:
        await neighbour.reset(task("plain"))
        pool._settings = limits(workers=1, environments_per_worker=2, step_seconds=0.3)

        async def interrupted() -> None:
            async with pool.lease() as environment:
                await environment.reset(task("held-reset"))

        playing = asyncio.ensure_future(interrupted())
        await exists(tmp_path / "in-held-reset")
        playing.cancel()
        await asyncio.wait([playing])
        await asyncio.sleep(0.5)  # longer than a step may take
        assert not (tmp_path / "closed").exists()
        (tmp_path / "go on").touch()
        await exists(tmp_path / "closed")
        assert len(pool.processes) == 1
        neighbour._settings = LIMITS  # type: ignore[attr-defined]
        await through(neighbour)


async def test_a_reset_that_hangs_has_a_deadline_of_its_own(tmp_path: Path) -> None:
    async with opened(tmp_path, workers=1, reset_seconds=0.5) as pool, pool.lease() as environment:
        with pytest.raises(EnvironmentFailure, match="reset of task corridor/slow-reset/3-000 took longer"):
            await environment.reset(task("slow-reset"))


async def test_a_world_that_cannot_be_opened_in_a_worker_says_why() -> None:
    pool = ProcessPool(not_here, LIMITS)
    for _ in range(2):
        with pytest.raises(EnvironmentFailure, match=r"opening the world .*FileNotFoundError: no games here"):
            async with pool.lease():
                pass
    await pool.close()


async def test_an_interpreter_that_is_not_there_is_named() -> None:
    pool = ProcessPool(not_here, limits(python="/no/such/python"))  # type: ignore[arg-type]
    with pytest.raises(EnvironmentFailure, match=r"cannot start /no/such/python.*pool\.python"):
        async with pool.lease():
            pass
    await pool.close()


async def test_closing_ends_what_environments_started(tmp_path: Path) -> None:
    async with opened(tmp_path) as pool:
        async with pool.lease() as environment:
            await environment.reset(task("children"))
        child = psutil.Process(int((tmp_path / "child").read_text()))
        assert child.is_running()
    assert gone(child)
    assert (tmp_path / "closed").exists()


async def test_closing_does_not_wait_for_a_hung_environment(tmp_path: Path) -> None:
    pool = ProcessPool(misbehaving(tmp_path), LIMITS)
    async with pool.lease() as environment:
        await environment.reset(task("hang"))
        stuck = asyncio.ensure_future(environment.step("go east"))
        await exists(tmp_path / "in-hang")
        (pid,) = pool.processes
        process = psutil.Process(pid)
        await pool.close()
        with pytest.raises(EnvironmentFailure, match="the pool was closed"):
            await stuck
    assert gone(process)


async def test_closing_does_not_wait_for_a_process_that_an_environment_sent_away(left_behind: Path) -> None:
    """It has a session of its own, so it outlives the worker, and holds its stderr open."""
    pool = ProcessPool(misbehaving(left_behind), LIMITS)
    async with pool.lease() as environment:
        await environment.reset(task("daemon"))
    await pool.close()
    assert not pool.processes
    assert psutil.pid_exists(int((left_behind / "child").read_text()))


KILLED = """
import asyncio, sys
from pathlib import Path
from actfirst.config.runtime_sections import PoolSection
from actfirst.environments.pool.pool import ProcessPool
from actfirst.records import Task
from tests.support.misbehaving import misbehaving

async def main() -> None:
    pool = ProcessPool(misbehaving(Path(sys.argv[1])), PoolSection(workers=2))
    async with pool.lease() as one, pool.lease() as two:
        await one.reset(Task("corridor/children/3-000", "train", "x"))
        await two.reset(Task("corridor/hang/3-000", "train", "x"))
        asyncio.ensure_future(two.step("go east"))
        while not Path(sys.argv[1], "in-hang").exists():
            await asyncio.sleep(0.01)
        print(*pool.processes, flush=True)
        await asyncio.sleep(3600)

asyncio.run(main())
"""


def test_workers_and_their_children_end_when_their_owner_is_killed(tmp_path: Path) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(tmp_path)], stdout=subprocess.PIPE, text=True, cwd=Path.cwd()
    )
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    left = [psutil.Process(pid) for pid in [*pids, int((tmp_path / "child").read_text())]]
    assert len(left) == 3
    os.kill(owner.pid, signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    assert all(gone(process) for process in left)


def gone(process: psutil.Process) -> bool:
    """Waits until a process is over, as long as the test may take. One that nobody has waited for yet is over."""
    try:
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.05)
    except psutil.NoSuchProcess:
        pass
    return True


async def exists(path: Path) -> None:
    """Waits for a file that tells that something is under way."""
    while not path.exists():  # noqa: ASYNC110, ASYNC240
        await asyncio.sleep(0.01)


class TestWhatARecipeAsksFor:
    POCKET = PocketSection(train_tasks=6, eval_tasks=6)

    def pool(self, **settings: object) -> EnvironmentPool:
        return open_pool(self.POCKET, PoolSection.model_validate(settings), open_world(self.POCKET))

    def test_fast_worlds_are_played_in_this_process(self) -> None:
        assert isinstance(self.pool(), InlinePool)

    def test_processes_can_be_asked_for_by_kind_or_by_interpreter(self) -> None:
        assert isinstance(self.pool(kind="processes"), ProcessPool)
        assert isinstance(self.pool(python=sys.executable), ProcessPool)

    def test_textworld_is_played_in_processes_one_environment_each(self, tmp_path: Path) -> None:
        section = AlfworldSection(folder=str(tmp_path), engine="textworld")
        pool = open_pool(section, PoolSection(python="elsewhere"), open_world(self.POCKET))
        assert isinstance(pool, ProcessPool)
        assert pool._settings.environments_per_worker == 1
        with pytest.raises(ConfigError, match=r"environments_per_worker = 2.* must be 0 or 1"):
            open_pool(
                section, PoolSection(python="elsewhere", environments_per_worker=2), open_world(self.POCKET)
            )

    def test_a_missing_extra_is_found_before_anything_starts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("actfirst.environments.alfworld.textworld_engine.PACKAGES", ("no_such_package",))
        section = AlfworldSection(folder=str(tmp_path), engine="textworld")
        with pytest.raises(EnvironmentFailure, match=r"pip install 'actfirst\[textworld\]'"):
            open_pool(section, PoolSection(), open_world(self.POCKET))

    def test_an_interpreter_without_workers_is_refused(self) -> None:
        with pytest.raises(ValueError, match="interpreter of worker processes"):
            PoolSection(kind="inline", python="elsewhere")
