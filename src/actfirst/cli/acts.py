"""The ways of acting that commands offer as `--act`. Evaluation by the paper's protocol is `think`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actfirst.methods.acting import Plan


class Act(StrEnum):
    """Who chooses the action."""

    THINK = "think"
    DIRECT = "direct"
    GUIDED = "guided"


def plan_of(act: Act) -> Plan:
    """Think-then-act, action only, or action only towards the reference's next observation."""
    from actfirst.methods.acting import Guided, NextAction, ThinkThenAct

    plans: dict[Act, Plan] = {Act.THINK: ThinkThenAct(), Act.DIRECT: NextAction(), Act.GUIDED: Guided()}
    return plans[act]
