"""Where a run begins: the start, or what a checkpoint keeps beside the learner.

A resumed run is the run of its newest valid checkpoint: batches and updates after it are made again, and the lines
they had written are cut.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pydantic import ConfigDict, ValidationError

from actfirst.errors import CheckpointError
from actfirst.records import TurnSample
from actfirst.rollout.buffer import Ledger
from actfirst.runs.lines import LedgerCounts, TrainerState
from actfirst.runs.run_folder import START


class StoredState(TrainerState):
    """The trainer's state and the samples that were buffered. A key that is not known could be one that matters."""

    model_config = ConfigDict(extra="forbid")

    samples: tuple[TurnSample, ...] = ()

    @classmethod
    def start(cls) -> StoredState:
        return cls(
            delivered=0,
            expected_contexts=0.0,
            ledger=LedgerCounts(),
            offsets=dict(START),
            seconds={},
            elapsed=0.0,
            evaluations=(),
        )

    @classmethod
    def of(cls, trainer_state: Mapping[str, object], samples: Sequence[TurnSample], where: str) -> StoredState:
        try:
            state = cls.model_validate({**trainer_state, "samples": samples})
        except ValidationError as error:
            raise CheckpointError(
                f"{where} was written by another version of actfirst: {error.errors()[0]['loc']} does not fit; "
                "continue it with that version, or start a new run from its model folder"
            ) from error
        Ledger.of(state.ledger).check(len(samples))
        return state
