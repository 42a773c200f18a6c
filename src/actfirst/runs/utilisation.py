"""How busy the machine was, as lines of utilisation.jsonl (paper, Figures "Rollout latency and quality", (c), and
"Rollout efficiency", (c, d)). It is a measurement beside the run: a resumed run goes on writing, nothing is cut."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import fmean

from pydantic import Field

from actfirst.runs.record import Record


class UtilisationLine(Record):
    """A mean since the sample before. `seconds` is the training clock. `gpus`: percent of each GPU of this machine, by
    NVML. `parts`: percent of one core: threads of the engines (student's
    and teacher's) and of the learner, `other` threads of the process (those that torch
    starts for either among them), `workers` in processes of their own (environments, engines, Ray's actors)."""

    seconds: float
    gpus: tuple[float, ...] = ()
    parts: dict[str, float] = Field(default_factory=dict)

    @property
    def busy(self) -> float:
        """One number: the mean over GPUs, else percent of one core over all parts."""
        return fmean(self.gpus) if self.gpus else sum(self.parts.values())


def one_history(lines: Iterable[UtilisationLine]) -> tuple[UtilisationLine, ...]:
    """Without what a resumed run took back: where the clock goes back, later seconds of before are left out."""
    kept: list[UtilisationLine] = []
    for line in lines:
        while kept and kept[-1].seconds >= line.seconds:
            kept.pop()
        kept.append(line)
    return tuple(kept)
