"""The ways of acting that measurements compare, by name. Evaluation by the paper's protocol is `think`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from actfirst.methods.acting import Acting


class Strategy(StrEnum):
    """Who chooses the action: the model with reasoning, without, or without and towards the reference."""

    THINK = "think"
    DIRECT = "direct"
    GUIDED = "guided"

    @property
    def label(self) -> str:
        return {"think": "Think-then-act", "direct": "Direct action", "guided": "Guided action"}[self]

    @property
    def acting(self) -> Acting:
        from actfirst.methods.acting import (
            Guided,
            NextAction,
            ThinkThenAct,
        )  # late: `--help` needs the names only

        plans: dict[Strategy, Acting] = {
            Strategy.THINK: ThinkThenAct(),
            Strategy.DIRECT: NextAction(),
            Strategy.GUIDED: Guided(then=NextAction()),
        }
        return plans[self]
