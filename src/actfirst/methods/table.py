"""All methods by name. A method is one row of five small values.

Rows come from three places: the table below, installed packages, and `register_method`. A package announces a row in
its metadata, and it is loaded when it is asked for:

    [project.entry-points."actfirst.methods"]
    every-third = "their_package:EVERY_THIRD"

A row is a `Method`, or a `Configured` one if a recipe may change its constants. No environment, no engine and no
learner is named here (docs/methods.md).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from actfirst.config.base import Section
from actfirst.config.config import Config
from actfirst.config.method_sections import (
    GigpoSection,
    GroupRewardSection,
    GrowthSection,
    GrpoSection,
    MethodsSection,
    OpdRewardSection,
    ReinforceSection,
    TurnOpdSection,
)
from actfirst.errors import ConfigError
from actfirst.methods.acting import (
    Acting,
    BackToFront,
    Guided,
    NextAction,
    ReplayReference,
    Stop,
    ThinkThenAct,
    first_fraction,
)
from actfirst.methods.depth import Depth, FullDepth, GrowingDepth, ProbedDepth
from actfirst.methods.group_objective import (
    INVALID,
    REWARDS,
    DistillationAndReward,
    GroupRelative,
)
from actfirst.methods.group_relative import GroupSettings
from actfirst.methods.objective import Distillation, Objective
from actfirst.methods.turn_weights import TokenToTurn, TurnWeights, Uniform

GROUP = "actfirst.methods"
Constants = TypeVar("Constants", bound=Section)


class ResponseTiming(StrEnum):
    """When full responses are generated."""

    INLINE = "inline"  # the response of a turn also acts, so the environment waits for it
    DEFERRED = "deferred"  # responses are generated from visited contexts, off the critical path


@dataclass(frozen=True)
class Method:
    """One row: who acts, when responses are generated, how deep, how turns weigh in the loss, and the objective."""

    title: str
    acting: Acting
    responses: ResponseTiming
    depth: Depth = field(default_factory=FullDepth)
    turn_weights: TurnWeights = field(default_factory=Uniform)
    objective: Objective = field(default_factory=Distillation)

    def __post_init__(self) -> None:
        if self.objective.compares and self.responses is ResponseTiming.DEFERRED:
            raise ConfigError(
                f"the method {self.title!r} compares rewards, so its samples must be the responses that acted: "
                "choose ResponseTiming.INLINE"
            )


@dataclass(frozen=True)
class Configured(Generic[Constants]):
    """A method with constants: a recipe sets `methods.<name>.<key>`, with `_` for `-` in the name."""

    constants: type[Constants]
    build: Callable[[Constants], Method]


Row = Method | Configured[Any]


def _f2b(constants: GrowthSection) -> Method:
    depth = GrowingDepth(constants.every, constants.counter)
    return Method("TCOD-F2B", ThinkThenAct(), ResponseTiming.INLINE, depth)


def _b2f(constants: GrowthSection) -> Method:
    prefix = BackToFront(constants.every, constants.counter)
    return Method("TCOD-B2F", ReplayReference(prefix, then=ThinkThenAct()), ResponseTiming.INLINE)


def _turnopd(constants: TurnOpdSection) -> Method:
    depth = ProbedDepth(
        constants.probe_every, constants.share, constants.smoothing, constants.least_depth, constants.epsilon
    )
    weights = TokenToTurn(constants.warm)
    title = "TurnOPD-style (reconstruction)"
    return Method(title, ThinkThenAct(), ResponseTiming.INLINE, depth, weights)


def _group_relative(constants: GroupRewardSection, *, dynamic_sampling: bool = False) -> GroupRelative:
    settings = GroupSettings(
        discount=constants.discount,
        step_weight=constants.step_weight,
        normalisation=constants.normalisation,
        over=constants.over,
        similarity=constants.similarity or None,
        invalid_penalty=constants.invalid_penalty,
        epsilon=constants.epsilon,
    )
    reward, invalid = REWARDS[constants.reward], INVALID[constants.invalid]
    return GroupRelative(settings, reward, constants.reward_scale, invalid, dynamic_sampling)


def _rewarded(title: str) -> Callable[[GrpoSection], Method]:
    def build(constants: GrpoSection) -> Method:
        objective = _group_relative(constants, dynamic_sampling=constants.dynamic_sampling)
        return Method(title, ThinkThenAct(), ResponseTiming.INLINE, objective=objective)

    return build


def _opd_reward(constants: OpdRewardSection) -> Method:
    objective = DistillationAndReward(_group_relative(constants), constants.weight)
    return Method("OPD plus task reward", ThinkThenAct(), ResponseTiming.INLINE, objective=objective)


_BUILT_IN: dict[str, Row] = {
    "vanilla": Method("Vanilla OPD", ThinkThenAct(), ResponseTiming.INLINE),
    "tcod-f2b": Configured(GrowthSection, _f2b),
    "tcod-b2f": Configured(GrowthSection, _b2f),
    "turnopd-style": Configured(TurnOpdSection, _turnopd),
    "actfirst": Method("ActFirst-OPD", Guided(then=NextAction()), ResponseTiming.DEFERRED),
    "actfirst-no-id": Method("ActFirst w/o inverse dynamics", NextAction(), ResponseTiming.DEFERRED),
    "actfirst-no-fallback": Method("ActFirst w/o NAP fallback", Guided(then=Stop()), ResponseTiming.DEFERRED),
    "replay-50": Method(
        "Reference-prefix replay (50 %)",
        ReplayReference(first_fraction(0.5), then=NextAction()),
        ResponseTiming.DEFERRED,
    ),
    "replay-100": Method("Reference-prefix replay (100 %)", ReplayReference(), ResponseTiming.DEFERRED),
    "gigpo": Configured(GigpoSection, _rewarded("GiGPO")),
    "grpo": Configured(GrpoSection, _rewarded("GRPO")),
    "reinforce": Configured(ReinforceSection, _rewarded("REINFORCE with a group baseline")),
    "opd-reward": Configured(OpdRewardSection, _opd_reward),
}
_REGISTERED: dict[str, Row] = {}


def register_method(name: str, row: Row) -> None:
    """Add a row for this process, as a notebook does. A second call with the same name replaces the first."""
    if name in _BUILT_IN:
        raise ConfigError(f"the method {name} is part of actfirst; register yours under another name")
    _REGISTERED[name] = row


def row_of(name: str) -> Row:
    """The row of a method; KeyError where nobody has it."""
    known = _BUILT_IN | _REGISTERED
    return known[name] if name in known else _load(_installed()[name])


def method_of(name: str, constants: MethodsSection) -> Method:
    """A method with the constants of a run."""
    row = row_of(name)
    return row if isinstance(row, Method) else row.build(constants.of(name) or row.constants())


def needs_teacher(config: Config) -> bool:
    """Whether anything of a run asks the frozen teacher: its method, the KL to an anchor, or an evaluation."""
    objective = method_of(config.rollout.method, config.methods).objective
    return objective.needs_teacher or config.learner.kl_weight > 0 or config.evaluation.teacher


class _Methods(Mapping[str, Method]):
    """All methods, with their default constants."""

    def __getitem__(self, name: str) -> Method:
        return method_of(name, MethodsSection())

    def __iter__(self) -> Iterator[str]:
        return iter(_names())

    def __len__(self) -> int:
        return len(_names())

    def __contains__(self, name: object) -> bool:
        return name in _names()  # without loading it


METHODS = _Methods()


def _names() -> list[str]:
    return list(dict.fromkeys([*_BUILT_IN, *_REGISTERED, *_installed()]))


def _installed() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=GROUP)}


def _load(point: EntryPoint) -> Row:
    """What an entry point names. Whatever goes wrong here is the fault of its package, and the error says so."""
    try:
        row = point.load()
    except Exception as error:
        fault = f"does not load: {type(error).__name__}: {error}"
        raise ConfigError(f"the method {point.name} ({point.value}) {fault}") from error
    if not isinstance(row, Method | Configured):
        raise ConfigError(f"the method {point.name} ({point.value}) is neither a Method nor a Configured")
    return row
