"""The FIFO sample buffer and its ledger (paper, "OPD Optimization").

An update takes the oldest samples whose version is the learner's current one or lags by at most `max_lag`;
older ones are discarded while the batch is made; nothing is taken twice. The ledger proves at every update that
generated = trained + discarded + buffered. An update may also take everything, once there is enough for a first step.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from actfirst.errors import LedgerError
from actfirst.records import TurnSample
from actfirst.runs.lines import LedgerCounts

STALE = "stale"


@dataclass
class Ledger:
    """Counts of full responses since the run began, and of the tokens of those generated and those trained on."""

    generated: int = 0
    trained: int = 0
    discarded: Counter[str] = field(default_factory=Counter)
    generated_tokens: int = 0
    trained_tokens: int = 0

    def check(self, buffered: int) -> None:
        accounted = self.trained + sum(self.discarded.values()) + buffered
        if self.generated != accounted:
            raise LedgerError(
                f"{self.generated} responses were generated but {accounted} are accounted for: "
                f"{self.trained} trained, {dict(self.discarded)} discarded, {buffered} buffered"
            )

    def counts(self, buffered: int) -> LedgerCounts:
        """The ledger as a run folder keeps it."""
        return LedgerCounts(
            generated=self.generated,
            trained=self.trained,
            discarded=dict(self.discarded),
            buffered=buffered,
            generated_tokens=self.generated_tokens,
            trained_tokens=self.trained_tokens,
        )

    @classmethod
    def of(cls, stored: LedgerCounts) -> Ledger:
        return cls(
            stored.generated,
            stored.trained,
            Counter(stored.discarded),
            stored.generated_tokens,
            stored.trained_tokens,
        )


class SampleBuffer:
    """Samples of completed rollout batches, in order."""

    def __init__(
        self,
        max_lag: int,
        ledger: Ledger | None = None,
        samples: Iterable[TurnSample] = (),
        *,
        whole: bool = False,
    ) -> None:
        """`whole`: an update takes all usable samples, not only as many as it needs."""
        self._max_lag = max_lag
        self._whole = whole
        self._samples = deque(samples)
        self.ledger = ledger or Ledger()

    def __len__(self) -> int:
        return len(self._samples)

    @property
    def samples(self) -> tuple[TurnSample, ...]:
        return tuple(self._samples)

    def add(self, samples: Iterable[TurnSample], discarded: Mapping[str, int], tokens: int = 0) -> None:
        """Take in what a rollout batch generated, `tokens` in all: its samples, and counted reasons for the rest."""
        before = len(self._samples)
        self._samples.extend(samples)
        self.ledger.discarded.update(discarded)
        self.ledger.generated += len(self._samples) - before + sum(discarded.values())
        self.ledger.generated_tokens += tokens

    def outlook(self, arrived: Sequence[TurnSample], count: int, version: int, updates: int) -> int | None:
        """How many samples will be left for an update that a new batch serves, once those that `arrived` are in and an
        update of `count` has been made if they suffice for one; None if that update is the last of `updates`."""
        waiting = [*self._samples, *arrived]
        usable = [sample for sample in waiting if version - sample.version <= self._max_lag]
        if len(usable) >= count:
            usable, version = [] if self._whole else usable[count:], version + 1
        if version >= updates:
            return None
        return sum(version - sample.version <= self._max_lag for sample in usable)

    def take(self, count: int, version: int) -> list[TurnSample] | None:
        """The oldest `count` usable samples, or all where updates take everything; None if there are not enough."""
        usable = [sample for sample in self._samples if version - sample.version <= self._max_lag]
        self.ledger.discarded[STALE] += len(self._samples) - len(usable)
        taken = usable[: None if self._whole else count] if len(usable) >= count else []
        self._samples = deque(usable[len(taken) :])
        self.ledger.trained += len(taken)
        self.ledger.trained_tokens += sum(len(sample.token_ids) for sample in taken)
        self.ledger.check(len(self._samples))
        return taken or None
