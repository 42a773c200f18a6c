"""Joins or starts a Ray cluster and says what each actor may use, and where. The only place that starts or stops Ray.

Whoever reaches a Ray cluster may run code in it. One that is started here therefore listens on the loopback address
only, has no dashboard, and asks for a token; one that is joined is protected by whoever started it.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import ray
from ray._private import ray_constants
from ray._raylet import AuthenticationMode, get_authentication_mode  # type: ignore[attr-defined]
from ray.util import get_placement_group, placement_group, placement_group_table, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from actfirst.config.config import Config
from actfirst.config.runtime_sections import RuntimeSection
from actfirst.errors import ConfigError
from actfirst.methods.table import needs_teacher

_MEGABYTE = 1024**2
# An engine's actor serves all requests of a rollout batch at once; the engine itself decides how many run.
_AT_ONCE = 10_000
_RANKS = "learner ranks"
_PATIENCE = 60.0  # seconds in which a cluster that is large enough finds places for the learner
BESIDE = "beside"
"""The calls of an actor that go on beside its others, which run one after the other."""


@dataclass(frozen=True, slots=True)
class Demand:
    """What one kind of actor asks for."""

    name: str
    count: int
    cpus: float
    gpus: float


@dataclass(frozen=True, slots=True)
class Demands:
    """All actors of a run. A teacher on servers that somebody else runs is no actor, nor one that nobody asks."""

    engine: Demand
    teacher: Demand
    learner: Demand
    environment: Demand
    driver: Demand

    @classmethod
    def of(cls, config: Config) -> Demands:
        wanted = config.runtime
        here = config.teacher.kind != "server" and needs_teacher(config)
        replicas = wanted.teacher_replicas if here else 0
        return cls(
            Demand("rollout engine", wanted.rollout_engines, wanted.cpus, wanted.engine_gpus),
            Demand("teacher replica", replicas, wanted.cpus, wanted.teacher_gpus),
            Demand("learner rank", wanted.learners, wanted.cpus, wanted.learner_gpus),
            Demand("environment worker", wanted.environment_workers, wanted.cpus, 0.0),
            Demand("rollout driver", wanted.rollout_drivers, wanted.cpus, 0.0),
        )

    @classmethod
    def of_players(cls, config: Config, engines: int) -> Demands:
        """Engines and environments of a command that only plays."""
        run = cls.of(config)
        return cls(
            replace(run.engine, count=engines),
            replace(run.teacher, count=0),
            replace(run.learner, count=0),
            run.environment,
            replace(run.driver, count=0),
        )

    @property
    def all(self) -> tuple[Demand, ...]:
        return (self.engine, self.teacher, self.learner, self.environment, self.driver)


@contextmanager
def cluster(settings: RuntimeSection, wanted: Demands) -> Iterator[None]:
    """A cluster that can hold the run. One that this call started ends with it; others are left alone."""
    joined = ray.is_initialized()
    if not joined:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # says nothing to anybody
        with nullcontext() if settings.address else _loopback_only():
            ray.init(
                address=settings.address or "local",
                include_dashboard=None if settings.address else False,
                log_to_driver=False,
                logging_level="error",
                **({} if settings.address else _sizes(settings, wanted)),
            )
    try:
        if not joined and not settings.address:
            _check_token()
        check_room(wanted, ray.cluster_resources())
        check_machines(wanted, [node["Resources"] for node in ray.nodes() if node["Alive"]])
        with _ranks_together(wanted.learner):
            yield
    finally:
        if not joined:
            ray.shutdown()


@contextmanager
def _ranks_together(demand: Demand) -> Iterator[None]:
    """Places for the ranks of a learner, on as few machines as can be, before engines are spread over the rest."""
    if not _reserved(demand):
        yield
        return
    each = {name: amount for name, amount in (("CPU", demand.cpus), ("GPU", demand.gpus)) if amount}
    group = placement_group([each] * demand.count, strategy="PACK", name=_RANKS)
    try:
        if not group.wait(_PATIENCE):
            raise ConfigError(
                f"the cluster found no places for {demand.count} learner ranks in {_PATIENCE:g} s, although it is "
                "large enough: somebody else uses it; wait, or lower runtime.learners"
            )
        yield
    finally:
        with suppress(Exception):  # the cluster may be gone
            remove_placement_group(group)


def _reserved(demand: Demand) -> bool:
    """Whether there are reserved places: for several ranks that ask for something."""
    return demand.count > 1 and bool(demand.cpus or demand.gpus)


def places(demand: Demand) -> list[int]:
    """The numbers of the reserved places that are there. A lost machine takes its own away, until Ray finds others."""
    if not _reserved(demand):
        return list(range(demand.count))
    there = {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    held = placement_group_table(get_placement_group(_RANKS))["bundles_to_node_id"]
    return sorted(int(number) for number, node in held.items() if node in there)


def _place(demand: Demand, bundle: int | None) -> Any:
    """Spread over machines, unless it is a rank of several."""
    if bundle is None or not _reserved(demand):
        return "SPREAD"
    return PlacementGroupSchedulingStrategy(get_placement_group(_RANKS), placement_group_bundle_index=bundle)


def actors(
    kind: type, demand: Demand, threads: int, *, serial: bool = False, bundle: int | None = None
) -> Callable[..., Any]:
    """Makes actors of one kind from their arguments. Whoever makes one replaces it, so Ray itself does not.

    `bundle` is the number of a learner's rank, for which `cluster` has reserved a place. All GPUs of an actor are of
    one machine: Ray does it no other way.
    """
    remote = ray.remote(concurrency_groups={BESIDE: 1}) if serial else ray.remote
    actor = remote(kind).options(
        num_cpus=demand.cpus,
        num_gpus=demand.gpus,
        max_restarts=0,
        max_task_retries=0,
        max_concurrency=1 if serial else _AT_ONCE,
        scheduling_strategy=_place(demand, bundle),
        runtime_env={"env_vars": {"OMP_NUM_THREADS": str(threads or max(1, math.floor(demand.cpus)))}},
    )
    make: Callable[..., Any] = actor.remote
    return make


@contextmanager
def _loopback_only() -> Iterator[None]:
    """Ray listens on every address of a machine unless it knows that there is no other one. It says so by platform."""
    before = ray_constants.ENABLE_RAY_CLUSTER
    ray_constants.ENABLE_RAY_CLUSTER = False
    try:
        yield
    finally:
        ray_constants.ENABLE_RAY_CLUSTER = before


def _check_token() -> None:
    """Ray asks for a token unless its environment says otherwise. Nobody else on this machine may read it."""
    if get_authentication_mode() != AuthenticationMode.TOKEN:
        raise ConfigError(
            "Ray was told to let everybody in who can reach it; unset RAY_AUTH_MODE, or set it to token"
        )
    with suppress(OSError):
        (Path.home() / ".ray" / "auth_token").chmod(0o600)


def _sizes(settings: RuntimeSection, wanted: Demands) -> dict[str, Any]:
    """A cluster on this machine: CPUs are only counted, so there are as many as the run asks for."""
    asked = math.ceil(sum(demand.count * demand.cpus for demand in wanted.all))
    store = settings.object_store_mb * _MEGABYTE
    return {"num_cpus": max(asked, os.cpu_count() or 1), **({"object_store_memory": store} if store else {})}


def check_room(wanted: Demands, resources: dict[str, float]) -> None:
    """Refuse a run that would wait for ever for machines that are not there."""
    asked = wanted.all
    for name, needed in (
        ("CPU", sum(demand.count * demand.cpus for demand in asked)),
        ("GPU", sum(demand.count * demand.gpus for demand in asked)),
    ):
        there = resources.get(name, 0.0)
        if needed > there:
            parts = ", ".join(f"{demand.count} {demand.name}s" for demand in asked if demand.count)
            raise ConfigError(
                f"the cluster has {there:g} {name}s and the run needs {needed:g} ({parts}); add machines with "
                "`ray start`, or lower the counts in [runtime]"
            )


def check_machines(wanted: Demands, machines: Sequence[Mapping[str, float]]) -> None:
    """Refuse an actor that no machine can hold, however many machines there are."""
    for demand in wanted.all:
        for name, needed in (("CPU", demand.cpus), ("GPU", demand.gpus)):
            most = max((machine.get(name, 0.0) for machine in machines), default=0.0)
            if demand.count and needed > most:
                raise ConfigError(
                    f"a {demand.name} needs {needed:g} {name}s on one machine, and no machine of the cluster has more "
                    f"than {most:g}; lower what it asks for in [runtime]"
                )
