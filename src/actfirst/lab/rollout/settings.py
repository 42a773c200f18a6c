"""What the experiment runs: its workload, its scans and its repeats, at three sizes.

`paper` is the paper's table "Rollout efficiency experiment settings". `laptop` keeps the ratios of lengths (8 and 32),
the tasks per batch, both scans and the repeats, and shrinks lengths and the number of contexts. `tiny` is for trials.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from actfirst.errors import ConfigError


@dataclass(frozen=True, slots=True)
class RolloutSettings:
    """One size of the experiment. Lengths are tokens; `contexts` is a multiple of `tasks`.

    `optimised` is not the paper's experiment: the engine itself holds the cap and pauses full responses for fast
    actions, and where the cap is too small for acting first to pay, ActFirst gives way to think-then-act.
    """

    contexts: int
    tasks: int
    fast: int
    full: tuple[int, ...]
    caps: tuple[int, ...]
    turns: int
    horizons: tuple[int, ...]
    cap: int
    repeats: int
    fast_first: bool = True
    optimised: bool = False
    seed: int = 42

    def __post_init__(self) -> None:
        if self.contexts % self.tasks:
            raise ConfigError(
                f"{self.contexts} contexts do not fill batches of {self.tasks} tasks; use a multiple"
            )

    def points(self) -> list[Point]:
        """Both scans; where they cross, one point serves both."""
        wanted = [
            *(Point(full, cap, self.turns) for full in self.full for cap in self.caps),
            *(Point(full, self.cap, turns) for full in self.full for turns in self.horizons),
        ]
        return list(dict.fromkeys(wanted))

    def one_batch(self) -> RolloutSettings:
        """What a simulation needs: it never varies, so that one batch and one repeat say everything."""
        return replace(self, contexts=self.tasks, repeats=1)


@dataclass(frozen=True, slots=True)
class Point:
    """One setting that is timed: full-response length, cap on concurrent requests, virtual turns."""

    full: int
    cap: int
    turns: int


_CAPS, _HORIZONS = (16, 32, 64, 128, 256), (1, 2, 4, 8, 16, 30)

# Settings of the engine in the paper's table, where training has others.
_PAPER_ENGINE = ("engine.max_prefill_tokens=16384", "engine.vllm.gpu_memory_utilization=0.85")


def engine_of(scale: str, *, optimised: bool) -> list[str]:
    """Overrides of a recipe for the experiment. The paper has neither a prefix cache nor pauses."""
    ours = [f"engine.{key}={str(optimised).lower()}" for key in ("prefix_caching", "priority", "preempt")]
    return [*ours, *_PAPER_ENGINE] if scale == "paper" else ours


SCALES: dict[str, RolloutSettings] = {
    "paper": RolloutSettings(1024, 16, 16, (128, 512), _CAPS, 30, _HORIZONS, 256, 3),
    "laptop": RolloutSettings(16, 16, 4, (32, 128), _CAPS, 30, _HORIZONS, 256, 3),
    "tiny": RolloutSettings(4, 4, 2, (4, 8), (4, 16), 3, (1, 3), 16, 2),
}
