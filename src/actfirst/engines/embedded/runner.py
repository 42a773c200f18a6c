"""One engine step: plan, one forward pass, draw tokens and gather scores, see who has ended.

Verifying draft tokens would have its place here: a draft is a span of given tokens whose logits are wanted at
every position, which is what scoring is already.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from collections.abc import Sequence as Rows
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from actfirst.engines.embedded.model import DecodeBatch, Model, Span
from actfirst.engines.embedded.prefix_cache import BLOCK, PrefixCache, block_keys
from actfirst.engines.embedded.sampling import Sampler, gather_logprobs
from actfirst.engines.embedded.scheduler import Scheduler, Work
from actfirst.engines.embedded.sequence import Generation, Scoring, Sequence, Stopping
from actfirst.records import StopReason

SCORE_ELEMENTS = 2**23  # logits of this many elements are held at once when scoring (32 MB)


@dataclass(slots=True)
class Counters:
    prefilled_tokens: int = 0
    cached_tokens: int = 0
    generated_tokens: int = 0
    scored_tokens: int = 0
    steps: int = 0
    busy_seconds: float = 0.0


class Runner:
    def __init__(
        self, model: Model, scheduler: Scheduler, prefix: PrefixCache | None, stopping: Stopping
    ) -> None:
        self._model = model
        self.scheduler = scheduler
        self._prefix = prefix
        self._stopping = stopping
        self._device = model.weights.embed_VH.device
        self.counters = Counters()
        self._decode: DecodeBatch | None = None
        self._sampler = Sampler((), self._device)
        self._last_tokens = torch.empty(0, dtype=torch.int64, device=self._device)

    def install(self, weights: Mapping[str, Tensor]) -> None:
        """Take new weights, which must fit; nothing may be running. What the old ones computed is forgotten."""
        self._model.weights.install(weights)
        self._model.cache.clear()
        if self._prefix is not None:
            self._prefix.clear()

    def cancel(self, sequence: Sequence) -> None:
        self.scheduler.remove(sequence)
        self._decode = None

    def step(self, *, admit: bool) -> list[Sequence]:
        """Run one step; returns the requests that ended in it, already removed from the scheduler."""
        begun = time.perf_counter()
        scheduler = self.scheduler
        work = scheduler.plan(admit=admit)
        self._make_room(work)
        rows = [s for s in scheduler.running[: scheduler.decoding] if isinstance(s, Generation)]
        decode = self._advance(rows)
        spans = [item.span for item in work]
        hidden_RH = self._model.forward(self._tokens(work), decode, spans)
        self._after_prefill(work)
        completed = [item.sequence for item in work if item.sequence.prefilled]
        started = [s for s in completed if isinstance(s, Generation)]
        ended: list[Sequence] = [s for s in completed if isinstance(s, Scoring)]
        rows += started
        if rows:
            ended += self._draw(rows, hidden_RH[: len(rows)], rebuilt=bool(started))
        self._score(work, hidden_RH[len(rows) :])
        self._update_batch(started, ended)
        self.counters.steps += 1
        self.counters.busy_seconds += time.perf_counter() - begun
        return ended

    def _make_room(self, work: Rows[Work]) -> None:
        """Grow the cache to what the step writes, and copy cached prefixes into the slots of new requests."""
        scheduler = self.scheduler
        decoding = max((s.stored for s in scheduler.running[: scheduler.decoding]), default=0) + 1
        longest = max((item.span.stop for item in work), default=0)
        self._model.cache.reserve(len(scheduler.running), max(decoding, longest))
        for item in work:
            if self._prefix is not None and item.loaded:
                self._prefix.load(item.sequence.keys[: item.loaded], item.span.slot)
                self.counters.cached_tokens += item.loaded * BLOCK

    def _advance(self, rows: Rows[Generation]) -> DecodeBatch | None:
        """The decode batch of this step: moved on by one token if nothing else changed, else built anew."""
        if not rows:
            return None
        batch = self._decode
        if batch is not None and batch.steps_left > 0 and batch.generation == self._model.cache.generation:
            batch.advance()
            return batch
        if batch is None:
            self._sampler = Sampler([s.sampling for s in rows], self._device)
            self._last_tokens = torch.tensor([s.tokens[-1] for s in rows], device=self._device)
        self._decode = DecodeBatch(self._model.cache, [s.stored for s in rows])
        return self._decode

    def _tokens(self, work: Rows[Work]) -> Tensor:
        if not work:
            return self._last_tokens
        ids = [item.sequence.ids[item.span.start : item.span.stop] for item in work]
        prompts = torch.from_numpy(np.concatenate(ids)).to(self._device)
        return torch.cat((self._last_tokens, prompts)) if self._decode is not None else prompts

    def _after_prefill(self, work: Rows[Work]) -> None:
        for item in work:
            sequence, span = item.sequence, item.span
            sequence.computed = span.stop
            self.counters.prefilled_tokens += span.stop - span.start
            if self._prefix is not None:
                blocks = min(span.stop, sequence.prompt_length) // BLOCK
                self._prefix.store(sequence.keys[:blocks], span.start // BLOCK, sequence.slot)

    def _draw(self, rows: Rows[Generation], hidden_RH: Tensor, *, rebuilt: bool) -> list[Generation]:
        """Draw a token for every row; returns the sequences that it ended."""
        sampler = Sampler([s.sampling for s in rows], self._device) if rebuilt else self._sampler
        tokens_R, logprobs_R = sampler.draw(self._model.logits(hidden_RH), [s.draw() for s in rows])
        self._last_tokens = tokens_R
        self.counters.generated_tokens += len(rows)
        ended = []
        for sequence, token, logprob in zip(rows, tokens_R.tolist(), logprobs_R.tolist(), strict=True):
            sequence.tokens.append(token)
            sequence.logprobs.append(logprob)
            if token in sequence.watch or len(sequence.tokens) >= sequence.sampling.max_tokens:
                reason = self._stopping.reason(sequence)
                if reason is not None:
                    sequence.stop_reason = reason
                    ended.append(sequence)
        return ended

    def _score(self, work: Rows[Work], hidden_RH: Tensor) -> None:
        """Log-probs of the scored tokens that this step reached; the logits held at once are bounded."""
        scored = [
            (item.sequence, _targets(item.sequence, item.span))
            for item in work
            if isinstance(item.sequence, Scoring)
        ]
        if not scored:
            return
        targets_R = torch.from_numpy(np.concatenate([targets for _, targets in scored])).to(self._device)
        size = max(1, SCORE_ELEMENTS // self._model.weights.config.vocab_size)
        logprobs: list[float] = []
        for i in range(0, len(targets_R), size):
            logits = self._model.logits(hidden_RH[i : i + size])
            logprobs += gather_logprobs(logits, targets_R[i : i + size]).tolist()
        at = 0
        for sequence, targets in scored:
            sequence.logprobs += logprobs[at : at + len(targets)]
            at += len(targets)
        self.counters.scored_tokens += at

    def _update_batch(self, started: Rows[Generation], ended: Rows[Sequence]) -> None:
        for generation in started:
            self.scheduler.promote(generation)
        # From the last slot down: then most holes are at the end and nothing has to be moved.
        for sequence in sorted(ended, key=lambda s: -s.slot):
            if self._prefix is not None and isinstance(sequence, Generation):
                self._store_generated(self._prefix, sequence)
            self.scheduler.remove(sequence)
        if started or any(isinstance(s, Generation) for s in ended):
            self._decode = None  # what was built for the old batch is stale

    def _store_generated(self, prefix: PrefixCache, sequence: Generation) -> None:
        # A thinking budget continues a response that was cut short; one that ended by itself is not continued.
        if sequence.stop_reason is not StopReason.EOS and sequence.stored // BLOCK > len(sequence.keys):
            ids = np.concatenate((sequence.ids, np.array(sequence.tokens[:-1], dtype=np.int64)))
            prefix.store(block_keys(ids), len(sequence.keys), sequence.slot)


def _targets(sequence: Scoring, span: Span) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The scored tokens whose log-probs this span gives: position p predicts token p + 1 - prompt_length."""
    first = max(span.start, span.wanted) - span.wanted
    return sequence.targets[first : max(first, span.stop - span.wanted)]
