"""Learner ranks, environment workers and weights on their way, without a cluster."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import pytest
import torch

pytest.importorskip("ray")

from actfirst.config.engine_sections import EngineSection
from actfirst.config.load import resolve
from actfirst.engines import weight_group
from actfirst.engines.base import Engine
from actfirst.engines.weight_group import Entry, WeightGroup, entries, free_address, packs
from actfirst.errors import (
    ActfirstError,
    ConfigError,
    EngineError,
    EnvironmentFailure,
    LearnerLost,
    UpdateError,
)
from actfirst.records import EngineStats, Observation, Task, UpdateStats
from actfirst.training.ray import cluster as cluster_module
from actfirst.training.ray import engine_actor
from actfirst.training.ray import learner as learner_module
from actfirst.training.ray import publish as publish_module
from actfirst.training.ray.cluster import Demand, Demands, check_machines, check_room
from actfirst.training.ray.desk import Score
from actfirst.training.ray.engine_actor import EngineActor
from actfirst.training.ray.environments import RayPool
from actfirst.training.ray.learner import RayLearner
from actfirst.training.ray.publish import Stored
from actfirst.training.ray.transfer import parcels, unpacked
from tests.training.fake_actors import FakeActor, FakeEngine, FakeRay, InProcess, fake_ray, settled

__all__ = ["fake_ray"]

STATS = UpdateStats(0.5, 0.1, 1.0, 0.0, 10, 5, 2, 0.1)


class FakeRank(FakeActor):
    def __init__(self, rank: int, ranks: int, place: int) -> None:
        super().__init__()
        self.rank, self.ranks, self.place = rank, ranks, place
        self.version = 0
        self.failure: Exception | None = None
        self.hangs = False

    async def on_address(self) -> str:
        return "here:1"

    async def on_open(self, *_: object) -> int:
        return self.version

    async def on_update(self, samples: list[Any]) -> UpdateStats:
        if self.hangs:
            await asyncio.Event().wait()  # waits for a rank that is gone
        if self.failure is not None:
            raise self.failure
        self.version += 1
        return STATS

    async def on_publish(self, dtype: str, averaged: bool) -> Stored:
        return Stored(self.version, [dtype] if self.rank == 0 else [])

    async def on_entries(self) -> tuple[()]:
        return ()

    async def on_join(self, *_: object) -> None: ...

    async def on_broadcast(self, dtype: str, averaged: bool) -> None: ...


async def opened_learner(ranks: int, *settings: str) -> tuple[RayLearner, list[FakeRank]]:
    learner, made = learner_in(list(range(ranks)), f"runtime.learners={ranks}", *settings)
    await learner.open(None)
    return learner, made


def learner_in(places: list[int], *settings: str) -> tuple[RayLearner, list[FakeRank]]:
    """A learner that finds these places, and the ranks that it will have started."""
    made: list[FakeRank] = []

    def start(rank: int, of: int, place: int) -> FakeRank:
        made.append(FakeRank(rank, of, place))
        return made[-1]

    config = resolve("pocket", ["runtime.kind=ray", *settings])
    return RayLearner(Path("student"), config, Path("checkpoints"), start, lambda: places), made


async def test_an_update_is_made_by_all_ranks_and_counted_once(fake_ray: FakeRay) -> None:
    learner, ranks = await opened_learner(2)
    assert await learner.update([]) == STATS
    assert (learner.version, [rank.version for rank in ranks]) == (1, [1, 1])


async def test_a_lost_rank_ends_all_of_them_at_once(fake_ray: FakeRay) -> None:
    learner, ranks = await opened_learner(2)
    ranks[1].hangs = True
    updating = asyncio.ensure_future(learner.update([]))
    await asyncio.sleep(0)
    ranks[0].die()
    with pytest.raises(LearnerLost, match="after update 0"):
        await updating
    assert all(rank.dead.is_set() for rank in ranks)
    assert learner.version == 0


async def test_ranks_that_do_not_answer_in_time_are_lost(fake_ray: FakeRay) -> None:
    learner, ranks = await opened_learner(2, "runtime.call_seconds=0.01")
    ranks[0].hangs = ranks[1].hangs = True
    with pytest.raises(LearnerLost, match=r"after update 0: no answer in 0\.01 s"):
        await learner.update([])
    assert all(rank.dead.is_set() for rank in ranks)


@pytest.mark.parametrize(
    ("settings", "there", "used"),
    [
        (("runtime.learners=4", "runtime.least_learners=2"), [0, 1, 3], [0, 1, 3]),
        (("runtime.learners=4", "runtime.least_learners=2", "runtime.learner_copies=2"), [0, 1, 3], [0, 1]),
        (("runtime.learners=4", "runtime.least_learners=4"), [0, 1, 2, 3], [0, 1, 2, 3]),
    ],
)
async def test_a_learner_goes_on_in_the_places_that_are_left(
    fake_ray: FakeRay,
    monkeypatch: pytest.MonkeyPatch,
    settings: tuple[str, ...],
    there: list[int],
    used: list[int],
) -> None:
    monkeypatch.setattr(learner_module, "_LOOK_SECONDS", 0.0)
    learner, ranks = learner_in(there, *settings)
    await learner.open(None)
    assert [(rank.rank, rank.ranks, rank.place) for rank in ranks] == [
        (number, len(used), place) for number, place in enumerate(used)
    ]


@pytest.mark.parametrize("least", [0, 3])
async def test_with_too_few_places_a_learner_waits_until_there_are_more(
    fake_ray: FakeRay, monkeypatch: pytest.MonkeyPatch, least: int
) -> None:
    monkeypatch.setattr(learner_module, "_LOOK_SECONDS", 0.0)
    monkeypatch.setattr(learner_module, "LOOKS", 3)
    places = [0, 1]
    learner, ranks = learner_in(places, "runtime.learners=4", f"runtime.least_learners={least}")
    opening = asyncio.ensure_future(learner.open(None))
    await settled()
    assert not opening.done()
    places += [2, 3]
    await opening
    assert len(ranks) == 4


def test_the_least_number_of_learners_is_not_more_than_all() -> None:
    with pytest.raises(ConfigError, match="is more than learners = 2"):
        resolve("pocket", ["runtime.kind=ray", "runtime.learners=2", "runtime.least_learners=3"])


@pytest.mark.parametrize(
    ("failure", "told", "saying"),
    [
        (UpdateError("the gradient is not finite"), UpdateError, "not finite"),
        (EngineError("out of memory"), LearnerLost, "after update 0: out of memory"),
    ],
    ids=["refuses", "breaks"],
)
async def test_a_rank_that_fails_alone_ends_the_others_and_one_that_breaks_counts_as_lost(
    fake_ray: FakeRay,
    monkeypatch: pytest.MonkeyPatch,
    failure: ActfirstError,
    told: type[ActfirstError],
    saying: str,
) -> None:
    monkeypatch.setattr(learner_module, "_PATIENCE", 0.01)
    learner, ranks = await opened_learner(2)
    ranks[0].failure, ranks[1].hangs = failure, True
    with pytest.raises(told, match=saying):
        await learner.update([])
    assert all(rank.dead.is_set() for rank in ranks)


async def test_a_rank_that_hears_of_the_loss_of_another_first_is_not_the_reason(fake_ray: FakeRay) -> None:
    learner, ranks = await opened_learner(2)
    ranks[0].failure, ranks[1].hangs = EngineError("connection closed by peer"), True
    updating = asyncio.ensure_future(learner.update([]))
    await settled()
    assert not updating.done()
    ranks[1].die()
    with pytest.raises(LearnerLost, match="after update 0"):
        await updating
    assert all(rank.dead.is_set() for rank in ranks)


async def test_what_all_ranks_refuse_is_no_loss(fake_ray: FakeRay) -> None:
    learner, ranks = await opened_learner(2)
    for rank in ranks:
        rank.failure = EngineError("no such file")
    with pytest.raises(EngineError, match="no such file"):
        await learner.update([])
    assert not any(rank.dead.is_set() for rank in ranks)


async def test_an_update_that_is_refused_is_no_loss(fake_ray: FakeRay) -> None:
    learner, ranks = await opened_learner(1)
    ranks[0].failure = UpdateError("the gradient is not finite")
    with pytest.raises(UpdateError, match="not finite"):
        await learner.update([])
    assert not ranks[0].dead.is_set()


class Versioned:
    """An engine whose swaps end when `gate` is open; a score is the version that made it."""

    def __init__(self) -> None:
        self.version, self.gate = 0, asyncio.Event()

    async def score(self, prompt: object, tokens: object) -> tuple[float, ...]:
        return (float(self.version),)

    async def load_weights(self, weights: object, version: int) -> None:
        await self.gate.wait()
        self.version = version

    def stats(self) -> EngineStats:
        return EngineStats(0, 0, 0, 0, 0, 0, 0.0, 0, 0)


async def test_swaps_and_requests_take_effect_in_the_order_in_which_they_were_announced() -> None:
    """Whatever the order in which Ray starts the calls."""
    engine, actor = Versioned(), EngineActor(EngineSection(), Path("model"))
    actor._engine = engine  # type: ignore[assignment]
    await actor.fetch([], 7)
    await actor.fetch([], 8)
    asked = [asyncio.ensure_future(actor.answer(Score((1,), (2,), swap))) for swap in (2, 1, 0)]
    swaps = [asyncio.ensure_future(actor.install(8, 2)), asyncio.ensure_future(actor.install(7, 1))]
    await settled()
    assert [task.done() for task in asked] == [False, False, True]
    engine.gate.set()
    await asyncio.gather(*swaps)
    assert engine.version == 8
    scores = [(await task)[0] for task in asked]
    assert (scores[0], scores[2]) == (8.0, 0.0)
    assert scores[1] in (7.0, 8.0)  # never older than what was announced before it


async def test_weights_are_stamped_with_the_version_that_they_have(fake_ray: FakeRay) -> None:
    """An engine that comes late may get newer weights than those that were announced; it must know."""
    learner, ranks = await opened_learner(2)
    weights = learner.weights()
    for rank in ranks:
        rank.version = 7
    (delivered,) = await weights.deliver_late([engine := FakeEngine()])  # type: ignore[attr-defined]
    assert delivered == engine.fetched == 7


class Receiver(FakeEngine):
    """Takes part in broadcasts, unless it is `broken`."""

    broken = False

    async def on_join(self, *_: object) -> None: ...

    async def on_receive(self, entries: object, dtype: str, version: int) -> None:
        if self.broken:
            raise EngineError("connection closed by peer")
        self.fetched = version


async def test_broadcasts_and_what_went_through_the_store_instead_are_counted(
    fake_ray: FakeRay, caplog: pytest.LogCaptureFixture
) -> None:
    learner, _ = await opened_learner(1, "runtime.weight_sync=collective")
    engine = Receiver()
    assert await learner.weights().deliver([engine], 0) == [0]
    assert (learner.broadcasts, learner.fallbacks) == (1, 0)
    engine.broken = True
    for _ in range(2):
        assert await learner.weights().deliver([engine], 0) == [0]
    assert (learner.broadcasts, learner.fallbacks) == (1, 2)
    assert learner.first_fallback == "connection closed by peer"
    assert caplog.text.count("connection closed by peer") == 1


class FakeWorker(FakeActor):
    def __init__(self) -> None:
        super().__init__()
        self.released: list[bool] = []

    async def on_lease(self, number: int) -> None: ...

    async def on_reset(self, number: int, task: Task) -> tuple[str, Observation]:
        return "do it", Observation("a room", ("look",))

    async def on_step(self, number: int, action: str) -> Observation:
        return Observation(action, ("look",))

    async def on_release(self, number: int, interrupted: bool) -> None:
        self.released.append(interrupted)


async def test_a_lost_environment_worker_fails_its_episodes_and_is_replaced(fake_ray: FakeRay) -> None:
    workers: list[FakeWorker] = []
    pool = RayPool(2, lambda: workers.append(FakeWorker()) or workers[-1])
    async with pool.lease() as one, pool.lease() as other:
        assert len(workers) == 2  # each went to the one that had less to do
        workers[0].die()
        with pytest.raises(EnvironmentFailure, match="worker was lost"):
            await one.step("look")
        assert (await other.step("look")).text == "look"
    async with pool.lease() as again:
        assert (await again.reset(Task("t", "train", "k")))[0] == "do it"
    await asyncio.sleep(0)
    assert (len(workers), pool.replaced) == (3, 1)
    assert workers[0].released == []
    await pool.close()
    assert all(worker.dead.is_set() for worker in workers)


async def test_an_interrupted_episode_gives_its_environment_back_as_unusable(fake_ray: FakeRay) -> None:
    worker = FakeWorker()
    pool = RayPool(1, lambda: worker)
    with pytest.raises(KeyError):
        async with pool.lease():
            raise KeyError
    async with pool.lease():
        pass
    await settled()
    assert worker.released == [True, False]


async def test_a_worker_that_does_not_answer_is_replaced(fake_ray: FakeRay) -> None:
    class Silent(FakeWorker):
        async def on_step(self, number: int, action: str) -> Observation:
            await asyncio.Event().wait()
            raise AssertionError

    pool = RayPool(1, Silent, call_seconds=0.01)
    async with pool.lease() as environment:
        with pytest.raises(EnvironmentFailure, match=r"no answer in 0\.01 s"):
            await environment.step("look")
    assert pool.replaced == 1


@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("bfloat16", 2)])
def test_weights_travel_in_the_precision_of_the_engine(dtype: str, size: int) -> None:
    weights = {"a": torch.randn(3, 5), "b": torch.randn(7)}
    packed = list(parcels(weights.items(), dtype))
    assert sum(p.array.nbytes for parcel in packed for p in parcel.values()) == size * 22
    for name, tensor in unpacked(packed).items():
        assert torch.equal(tensor, weights[name].to(tensor.dtype))
        assert str(tensor.dtype) == f"torch.{dtype}"


def test_tensors_travel_in_packs_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both sides cut alike, so the receiver knows what a pack holds."""
    monkeypatch.setattr(weight_group, "PACK_BYTES", 40)
    weights = {name: torch.ones(size) for name, size in (("a", 4), ("b", 6), ("c", 1), ("d", 30), ("e", 2))}
    cut = [[entry.name for entry in pack] for pack in packs(entries(weights.items()), "float32")]
    assert cut == [["a", "b"], ["c"], ["d"], ["e"]]
    sent = weight_group._packed(weights.items(), torch.device("cpu"), "float32")
    assert [len(pack) for pack in sent] == [10, 1, 30, 2]
    halves = [[entry.name for entry in pack] for pack in packs(entries(weights.items()), "bfloat16")]
    assert halves == [["a", "b", "c"], ["d"], ["e"]]


def test_a_broadcast_reaches_every_member() -> None:
    weights = {"a": torch.randn(3, 5), "b": torch.randn(7)}
    address, got = free_address("127.0.0.1"), {}

    def receive(rank: int) -> None:
        got[rank] = WeightGroup(address, rank, 3, "cpu").receive(entries(weights.items()), "float32")

    receivers = [threading.Thread(target=receive, args=(rank,)) for rank in (1, 2)]
    for thread in receivers:
        thread.start()
    WeightGroup(address, 0, 3, "cpu").send(weights.items(), "float32")
    for thread in receivers:
        thread.join()
    assert sorted(got) == [1, 2]
    for received in got.values():
        assert all(torch.equal(received[name], weights[name]) for name in weights)


class FakeGroup:
    """A process group as NCCL is: whoever waits for a member that never comes waits until the group is aborted."""

    def __init__(self, works: int = 0, failure: Exception | None = None, *, polite: bool = True) -> None:
        """The first `works` collectives end; the next one raises `failure`, or never ends."""
        self.works, self.failure, self.polite = works, failure, polite
        self.aborted = threading.Event()

    def broadcast(self, tensor: torch.Tensor, root: int) -> FakeGroup:
        return self

    def wait(self) -> None:
        self.works -= 1
        if self.works >= 0:
            return
        if self.failure is not None:
            raise self.failure
        self.aborted.wait(60)
        raise RuntimeError("NCCL communicator was aborted")

    def abort(self) -> None:
        self.aborted.set()
        if not self.polite:
            raise RuntimeError("abort failed too")


def group_of(fake: FakeGroup, patience: float) -> WeightGroup:
    group = WeightGroup(free_address("127.0.0.1"), 0, 1, "cpu")
    group._group, group._patience = fake, patience
    return group


WEIGHTS = {"a": torch.zeros(3), "b": torch.zeros(2)}


def test_a_receiver_that_fails_before_its_first_collective_does_not_hold_the_sender() -> None:
    fake = FakeGroup()
    group = group_of(fake, patience=600)
    group.fail("OutOfMemoryError: no room for a")
    with pytest.raises(EngineError, match="OutOfMemoryError: no room for a"):
        group.send(WEIGHTS.items(), "float32")
    assert fake.aborted.is_set()


@pytest.mark.parametrize("works", [0, 1], ids=["hangs at once", "hangs late"])
@pytest.mark.parametrize("polite", [True, False], ids=["can be aborted", "cannot"])
def test_a_member_that_hangs_is_left_after_the_patience_of_the_group(
    works: int, polite: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_group, "PACK_BYTES", 4)  # so that each tensor travels by itself
    fake = FakeGroup(works, polite=polite)
    with pytest.raises(EngineError, match="did nothing for"):
        group_of(fake, patience=0.1).receive(entries(WEIGHTS.items()), "float32")
    assert fake.aborted.is_set()


def test_a_member_that_dies_is_told_as_the_group_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weight_group, "PACK_BYTES", 4)
    with pytest.raises(RuntimeError, match="connection reset"):
        group_of(FakeGroup(1, RuntimeError("connection reset")), 600).send(WEIGHTS.items(), "float32")


async def test_an_engine_that_cannot_receive_tells_the_sender() -> None:
    told: list[str] = []
    actor = EngineActor(EngineSection(), Path("model"))
    actor._engine = cast("Engine", object())
    actor._group = group = WeightGroup.__new__(WeightGroup)
    group.fail = told.append  # type: ignore[method-assign]
    with pytest.raises(AttributeError):  # it has no device yet
        await actor.receive(entries(WEIGHTS.items()), "float32", 1)
    assert len(told) == 1


class Workers:
    """An engine whose own workers take weights."""

    def __init__(self) -> None:
        self.did: list[tuple[object, ...]] = []

    async def join(self, address: str, rank: int, size: int) -> None:
        self.did.append(("join", address, rank, size))

    async def receive(self, entries: Sequence[Entry], dtype: str, version: int) -> None:
        self.did.append(("receive", len(entries), dtype, version))

    async def load_received(self, version: int) -> None:
        self.did.append(("load", version))

    def stats(self) -> EngineStats:
        return EngineStats(0, 0, 0, 0, 0, 0, 0.0, 0, 0)


async def test_weights_go_into_the_workers_of_an_engine_that_has_some_and_not_into_its_actor() -> None:
    actor, engine = EngineActor(EngineSection(), Path("model")), Workers()
    actor._engine = cast("Engine", engine)
    await actor.join("here:1", 3, 5, "cuda")
    await actor.receive(entries(WEIGHTS.items()), "bfloat16", 7)
    await actor.install(7, 1)
    assert engine.did == [("join", "here:1", 3, 5), ("receive", len(WEIGHTS), "bfloat16", 7), ("load", 7)]
    assert actor._group is None


async def test_every_worker_of_an_engine_is_a_member_of_the_group(fake_ray: FakeRay) -> None:
    """Two engines of two GPUs each: with the sender five members."""
    settings = ("runtime.weight_sync=collective", "engine.kind=vllm", "engine.preempt=false")
    learner, _ = await opened_learner(1, *settings, "engine.vllm.tensor_parallel=2", "runtime.engine_gpus=2")
    actors = [InProcess(EngineActor(EngineSection(), Path("model"))) for _ in range(2)]
    engines = [Workers(), Workers()]
    for actor, engine in zip(actors, engines, strict=True):
        actor.inner._engine = engine
    await learner._regroup(actors)
    assert [engine.did for engine in engines] == [[("join", "here:1", 1, 5)], [("join", "here:1", 3, 5)]]


async def test_adapters_alone_are_taken_by_an_engines_actor_however_many_workers_it_has(
    fake_ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the group would wait for members that never come."""
    joined: list[tuple[object, ...]] = []
    monkeypatch.setattr(engine_actor, "WeightGroup", lambda *given: joined.append(given))
    settings = ("runtime.weight_sync=collective", "engine.kind=vllm", "engine.preempt=false")
    two = ("engine.vllm.tensor_parallel=2", "runtime.engine_gpus=2", "learner.adapter_rank=8")
    learner, _ = await opened_learner(1, *settings, *two)
    actors = [InProcess(EngineActor(EngineSection(), Path("model"))) for _ in range(2)]
    for actor in actors:
        actor.inner._engine = object()
    await learner._regroup(actors)
    assert sorted(joined) == [("here:1", 1, 3, "cpu"), ("here:1", 2, 3, "cpu")]


async def test_a_sender_that_never_answers_is_lost_with_its_learner(
    fake_ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(learner_module, "TRANSFER_SECONDS", 0.1)
    learner, ranks = await opened_learner(1, "runtime.weight_sync=collective")

    async def never(self: FakeRank, dtype: str, averaged: bool) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(FakeRank, "on_broadcast", never)
    with pytest.raises(LearnerLost, match=r"no answer in 0\.1 s"):
        await learner.weights().deliver([Receiver()], 0)
    assert ranks[0].dead.is_set()


async def test_an_engine_to_which_no_weights_come_in_time_is_lost(
    fake_ray: FakeRay, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publish_module, "TRANSFER_SECONDS", 0.1)
    learner, _ = await opened_learner(1, "runtime.weight_sync=store")
    slow, fine = FakeEngine(), FakeEngine()
    slow.travelled.clear()
    assert await learner.weights().deliver([slow, fine], 0) == [None, 0]


def test_a_cluster_that_is_too_small_is_refused_by_name() -> None:
    wanted = Demands.of(resolve("paper/alfworld-4b"))
    with pytest.raises(ConfigError, match=r"has 2 GPUs and the run needs 8 \(4 rollout engines, 2 teacher"):
        check_room(wanted, {"CPU": 64.0, "GPU": 2.0})
    check_room(wanted, {"CPU": 64.0, "GPU": 8.0})


def test_an_actor_that_no_machine_can_hold_is_refused() -> None:
    wanted = Demands.of(
        resolve("paper/alfworld-4b", ["runtime.engine_gpus=8", "engine.vllm.tensor_parallel=8"])
    )
    four = {"CPU": 32.0, "GPU": 4.0}
    with pytest.raises(ConfigError, match=r"a rollout engine needs 8 GPUs on one machine.* more than 4"):
        check_machines(wanted, [four] * 16)
    check_machines(wanted, [four, {"CPU": 32.0, "GPU": 8.0}])


class FakePlaces:
    """A placement group of Ray; `there` says whether the cluster finds its places."""

    def __init__(self, bundles: list[dict[str, float]], there: bool) -> None:
        self.bundles = bundles
        self.there = there
        self.removed = False

    def wait(self, seconds: float) -> bool:
        return self.there


@pytest.fixture
def groups(monkeypatch: pytest.MonkeyPatch) -> list[FakePlaces]:
    made: list[FakePlaces] = []

    def make(bundles: list[dict[str, float]], strategy: str, name: str) -> FakePlaces:
        assert strategy == "PACK"
        made.append(FakePlaces(bundles, there=len(bundles) < 8))
        return made[-1]

    monkeypatch.setattr(cluster_module, "placement_group", make)
    monkeypatch.setattr(cluster_module, "remove_placement_group", lambda group: setattr(group, "removed", True))
    return made


def test_places_for_the_ranks_of_a_learner_are_reserved_together_and_given_back(
    groups: list[FakePlaces],
) -> None:
    with cluster_module._ranks_together(Demand("learner rank", 4, 0.5, 1.0)):
        (group,) = groups
        assert group.bundles == [{"CPU": 0.5, "GPU": 1.0}] * 4
        assert not group.removed
    assert group.removed


def test_one_rank_needs_no_group(groups: list[FakePlaces]) -> None:
    with cluster_module._ranks_together(Demand("learner rank", 1, 0.5, 1.0)):
        assert groups == []


def test_a_cluster_without_places_for_all_ranks_is_refused(groups: list[FakePlaces]) -> None:
    with (
        pytest.raises(ConfigError, match="no places for 8 learner ranks"),
        cluster_module._ranks_together(Demand("learner rank", 8, 0.0, 1.0)),
    ):
        raise AssertionError
    assert groups[0].removed
