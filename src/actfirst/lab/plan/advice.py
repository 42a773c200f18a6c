"""A recipe on so many GPUs: how the GPUs are shared out, where time goes, and which part to add next."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from actfirst.config.config import Config
from actfirst.errors import ConfigError
from actfirst.lab.plan.costs import Costs
from actfirst.lab.plan.model import Outcome, simulate
from actfirst.lab.plan.work import Plan, PlannedEpisode
from actfirst.lab.speed.budget import A100

_MORE = 0.125
"""A part grows by this share of itself, and by one at least."""
_TASKS = 384  # in all, of the updates that are counted
_UPDATES = 4  # at least: fewer may happen to lie within the time of one batch


@dataclass(frozen=True, slots=True)
class Advice:
    """`more`: seconds of an update with more of one part, by the name of what was added; the best first."""

    gpus: float
    plan: Plan
    outcome: Outcome
    more: dict[str, float]

    @property
    def turns(self) -> float:
        """Responses that are trained on, for each hour and GPU."""
        return self.plan.samples / self.outcome.seconds * 3600 / max(1.0, self.gpus)


def advise(
    config: Config,
    costs: Costs,
    episodes: Sequence[PlannedEpisode],
    gpus: float | None = None,
    *,
    grow: bool = False,
    updates: int | None = None,
) -> Advice:
    """`gpus` None: the recipe as it is. `grow`: tasks and samples of an update grow with the GPUs. `updates`: that are
    counted; None: fewer where each has more to do."""
    plan = Plan.of(config)
    there = _gpus(config, plan)
    if gpus is not None:
        plan = shared_out(config, plan, gpus)
        plan = plan.grown(gpus / there) if grow else plan
    updates = updates or max(_UPDATES, min(24, _TASKS // plan.tasks))

    def seconds(other: Plan, others: Costs = costs) -> float:
        return simulate(other, others, episodes, updates).seconds

    quicker = replace(costs, request=costs.request / 2, prepare=costs.prepare / 2, relayed=costs.relayed / 2)
    through = replace(costs, engine=replace(costs.engine, drains=False))
    more: dict[str, Callable[[], float]] = {
        "engines": lambda: seconds(replace(plan, engines=_more(plan.engines))),
        "learner ranks": lambda: seconds(replace(plan, ranks=_more(plan.ranks))),
        "rollout drivers": lambda: seconds(replace(plan, drivers=max(2, _more(plan.drivers)))),
        "half the driver's cost": lambda: seconds(plan, quicker),
    }
    if plan.scored and config.teacher.kind != "server":
        more["teachers"] = lambda: seconds(replace(plan, teachers=_more(plan.teachers)))
    if costs.engine.drains:
        more["swaps in flight"] = lambda: seconds(plan, through)
    outcome = simulate(plan, costs, episodes, updates)
    found = {name: measure() for name, measure in more.items()}
    best = dict(sorted(found.items(), key=lambda pair: pair[1]))
    return Advice(gpus if gpus is not None else there, plan, outcome, best)


def shared_out(config: Config, plan: Plan, gpus: float) -> Plan:
    """GPUs in the proportion of the recipe, one of each part at least; what is left over goes to engines."""
    runtime, there = config.runtime, _gpus(config, plan)
    if not there:
        raise ConfigError(
            "the recipe uses no GPU, so none can be shared out; set runtime.engine_gpus, teacher_gpus and "
            "learner_gpus, or leave --gpus out"
        )
    teachers = max(1, int(plan.teachers * gpus / there)) if plan.teachers else 0
    ranks = max(1, int(plan.ranks * gpus / there))
    left = gpus - teachers * runtime.teacher_gpus - ranks * runtime.learner_gpus
    engines = int(left / runtime.engine_gpus) if runtime.engine_gpus else plan.engines
    if engines < 1:
        raise ConfigError(f"{gpus:g} GPUs do not hold an engine, a teacher and a learner; give more")
    return replace(plan, engines=engines, teachers=teachers, ranks=ranks)


def rows(found: Sequence[Advice]) -> list[dict[str, str]]:
    return [
        {
            "GPUs": f"{one.gpus:g}",
            "engines + teachers + ranks": f"{one.plan.engines} + {one.plan.teachers} + {one.plan.ranks}",
            "tasks, samples": f"{one.plan.tasks}, {one.plan.samples}",
            "s / update": f"{one.outcome.seconds:.2f}",
            **{f"{name} (s)": f"{one.outcome.stages.get(name, 0.0):.2f}" for name in _STAGES},
            **{f"{part} busy (%)": f"{share:.0f}" for part, share in one.outcome.busy.items()},
            "engine idle (s)": f"{one.outcome.idle:.2f}",
            "held by swaps (s)": f"{one.outcome.held:.2f}",
            "samples / h / GPU": f"{one.turns:.0f}",
        }
        for one in found
    ]


_STAGES = ("rollout", "update", "sync", "checkpoint")


def next_part(one: Advice) -> str:
    """One line: what to add, and what else was tried."""
    before = one.outcome.seconds
    tried = ", ".join(f"{name} {100 * (1 - after / before):+.1f} %" for name, after in one.more.items())
    name, after = next(iter(one.more.items()))
    best = f"add {name}" if after < 0.99 * before else "nothing alone helps"
    line = f"{one.gpus:g} GPUs: {best}. Time saved of an update by {_MORE:.1%} more (one at least) of: {tried}."
    if one.outcome.idle_ranks:
        line += f" {one.outcome.idle_ranks} ranks have no sequence: a rank takes whole ones, raise learner.batch_size."
    if one.outcome.busy["driver"] > 80:
        line += " The run's own process is the limit: see runtime.rollout_drivers."
    return line


def to_json(found: Sequence[Advice]) -> list[dict[str, object]]:
    return [{**asdict(one), "samples_per_hour_and_gpu": one.turns} for one in found]


def assumed(costs: Costs) -> str:
    """What the figures stand on."""
    return (
        f"engine: {costs.engine.latency.describe()}; installing weights {costs.engine.install:.2f} s. Learner: "
        f"{1e6 * costs.token:.2f} us a token and rank. Transfer beside engines {costs.transfer:.2f} s. Driver: "
        f"{1e3 * costs.request:.2f} ms a request, {1e3 * costs.prepare:.2f} ms for its prompt. "
        f"Environment: {1e3 * costs.environment:.1f} ms a step. "
        f"({A100.name} where nothing was measured.)"
    )


def _more(count: int) -> int:
    return count + max(1, round(_MORE * count))


def _gpus(config: Config, plan: Plan) -> float:
    runtime = config.runtime
    return (
        plan.engines * runtime.engine_gpus
        + plan.teachers * runtime.teacher_gpus
        + plan.ranks * runtime.learner_gpus
    )
