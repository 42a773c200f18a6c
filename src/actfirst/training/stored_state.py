"""What a checkpoint keeps of a run beside the learner: cursor, ledger, buffer, clock, file offsets.

A resumed run is the run of its newest valid checkpoint: batches and updates after it are made again, and the lines
they had written are cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, ValidationError

from actfirst.errors import CheckpointError
from actfirst.methods.acting import Probe
from actfirst.records import TurnSample
from actfirst.rollout.buffer import Ledger
from actfirst.runs.run_folder import START


class TrainerState(BaseModel):
    """The JSON part of a checkpoint."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    delivered: int
    expected_contexts: float
    ledger: dict[str, object]
    offsets: dict[str, int]
    seconds: dict[str, float]
    elapsed: float
    evaluations: list[dict[str, object]]
    probe: Probe | None = None


@dataclass(frozen=True)
class StoredState:
    """Where a run begins: the start, or what a checkpoint says."""

    delivered: int = 0
    expected_contexts: float = 0.0
    ledger: Ledger = field(default_factory=Ledger)
    samples: Sequence[TurnSample] = ()
    offsets: Mapping[str, int] = field(default_factory=lambda: dict(START))
    seconds: Mapping[str, float] = field(default_factory=dict)
    elapsed: float = 0.0
    evaluations: Sequence[dict[str, object]] = ()
    probe: Probe | None = None

    @classmethod
    def of(cls, trainer_state: Mapping[str, object], samples: Sequence[TurnSample], where: str) -> StoredState:
        try:
            state = TrainerState.model_validate(dict(trainer_state))
        except ValidationError as error:
            raise CheckpointError(
                f"{where} was written by another version of actfirst: {error.errors()[0]['loc']} does not fit; "
                "continue it with that version, or start a new run from its model folder"
            ) from error
        ledger = Ledger.from_json(state.ledger)
        ledger.check(len(samples))
        return cls(
            state.delivered,
            state.expected_contexts,
            ledger,
            samples,
            state.offsets,
            state.seconds,
            state.elapsed,
            state.evaluations,
            state.probe,
        )
