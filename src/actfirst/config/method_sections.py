"""Constants of single methods: the table `methods` of a recipe."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import ConfigDict, Field, SerializeAsAny

from actfirst.config.base import Fraction, Positive, Section, Share


class GrowthSection(Section):
    """A curriculum that grows by one turn every `every` steps of `counter` (TCOD)."""

    every: Positive = Field(6, description="steps between two turns more")
    counter: Literal["batch", "update"] = Field(
        "batch", description="what the schedule counts: rollout batches, as its authors do, or updates"
    )


class TurnOpdSection(Section):
    """TurnOPD-style. Its paper's constants are not known: these are ours."""

    probe_every: Positive = Field(10, description="updates between two probes at full depth")
    share: Fraction = Field(0.9, description="share of the utility of all turns that the depth has to hold")
    smoothing: Fraction = Field(0.5, description="weight of the newest probe in the smoothed depth")
    least_depth: Positive = Field(5, description="turns that rollouts are allowed at least")
    epsilon: Annotated[float, Field(gt=0.0)] = Field(
        0.05, description="added to the deviation of a turn's KL, in nats per token"
    )
    warm: Fraction = Field(0.5, description="share of all updates after which turns are fully balanced")


class GroupRewardSection(Section):
    """Advantages from rewards of a group (GRPO's form). Defaults are those of GiGPO's authors where they have one."""

    reward: Literal["success", "score"] = Field(
        "success",
        description="what an episode earns: all of reward_scale at success, or the share of its score",
    )
    reward_scale: Annotated[float, Field(gt=0.0)] = Field(
        10.0, description="reward of a success, or of a full score"
    )
    invalid_penalty: Share = Field(0.1, description="taken from the reward of a turn with an invalid action")
    invalid: Literal["unparsed", "unparsed-or-no-thought", "inadmissible"] = Field(
        "unparsed",
        description="what counts as invalid: no action field; or no think tags either; or not an admissible action",
    )
    discount: Fraction = Field(0.95, description="of later rewards in the return of a step")
    step_weight: Share = Field(0.0, description="of the step advantage, over equal observations of a group")
    normalisation: Literal["mean_std_norm", "mean_norm"] = Field(
        "mean_std_norm", description="of advantages: less the mean, divided by the deviation or not"
    )
    over: Literal["steps", "trajectories"] = Field(
        "steps",
        description="what mean and deviation of episode rewards run over: all turns of the group, so that advantages "
        "have mean 0, or its trajectories, so that long failures push everything down",
    )
    similarity: Annotated[float, Field(ge=0.0, le=1.0)] = Field(
        0.0, description="observations at least this much alike count as equal; 0: only equal ones"
    )
    epsilon: Annotated[float, Field(gt=0.0)] = Field(1e-6, description="added to deviations")


class GrpoSection(GroupRewardSection):
    """GRPO: the episode's reward against those of its group."""

    dynamic_sampling: bool = Field(
        False, description="leave out groups whose rewards are all equal, and collect others instead"
    )


class ReinforceSection(GrpoSection):
    """REINFORCE with the mean of the group as baseline."""

    normalisation: Literal["mean_std_norm", "mean_norm"] = "mean_norm"


class GigpoSection(GrpoSection):
    """GiGPO, as its authors run it."""

    step_weight: Share = 1.0


class OpdRewardSection(GroupRewardSection):
    """Distillation plus weight x group-relative advantage."""

    weight: Share = Field(1.0, description="of the group-relative advantage beside that of distillation")


class MethodsSection(Section):
    """Constants of single methods; a run uses those of its own method only.

    Methods of other packages bring sections of their own, which `checks.py` finds.
    """

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, SerializeAsAny[Section]]

    tcod_f2b: GrowthSection = GrowthSection()
    tcod_b2f: GrowthSection = GrowthSection(every=5)
    turnopd_style: TurnOpdSection = TurnOpdSection()
    gigpo: GigpoSection = GigpoSection()
    grpo: GrpoSection = GrpoSection()
    reinforce: ReinforceSection = ReinforceSection()
    opd_reward: OpdRewardSection = OpdRewardSection()

    def of(self, method: str) -> Section | None:
        """The constants of a method, if there are any here."""
        found: dict[str, Section] = dict(self)
        return found.get(key_of(method))


def key_of(method: str) -> str:
    """The key of a method's constants in a recipe."""
    return method.replace("-", "_")
