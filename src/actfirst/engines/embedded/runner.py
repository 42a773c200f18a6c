"""One engine step: plan, one forward pass, draw tokens and gather scores, see who has ended.

Drafts are verified exactly. Drawing a token from the model's distribution and comparing it with the draft is
rejection sampling with a draft that is certain: the draft token comes out with the model's probability of it,
and any other token with the model's distribution without it, renormalised. Each position has a uniform number of
its own, so a request's tokens are the same with and without a draft (but for rounding).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from collections.abc import Sequence as Rows

import numpy as np
import torch
from torch import Tensor

from actfirst.engines.embedded.decoding import DecodeBatch, DraftBatch
from actfirst.engines.embedded.general import GeneralModel
from actfirst.engines.embedded.model import Model, Span
from actfirst.engines.embedded.prefix_cache import BLOCK, PrefixCache, block_keys
from actfirst.engines.embedded.sampling import Sampler, gather_logprobs
from actfirst.engines.embedded.scheduler import Scheduler, Work
from actfirst.engines.embedded.sequence import Generation, Scoring, Sequence, Stopping
from actfirst.engines.stepped import IdArray
from actfirst.engines.stepping import Counters, Result
from actfirst.records import StopReason

SCORE_ELEMENTS = 2**23  # logits of this many elements are held at once when scoring (32 MB)


class Runner:
    """Steps with one set of weights: a model, the requests that run on it, and what they have computed."""

    def __init__(
        self,
        model: Model | GeneralModel,
        scheduler: Scheduler,
        prefix: PrefixCache | None,
        stopping: Stopping,
        counters: Counters,
    ) -> None:
        self._model = model
        self.scheduler = scheduler
        self._prefix = prefix
        self._stopping = stopping
        self.counters = counters
        # Of the decoding sequences, valid as long as neither they nor their slots change.
        self._changes = -1
        self._decode: DecodeBatch | None = None
        self._sampler = Sampler(())
        self._last_tokens = torch.empty(0, dtype=torch.int64)

    def install(self, weights: Mapping[str, Tensor], version: int) -> None:
        """Take new weights, which must fit. What runs goes on with them and with the keys and values that it has; all
        else that the old ones computed is forgotten."""
        self._model.weights.install(weights)
        self.scheduler.version = version
        self._model.cache.clear([sequence.stored for sequence in self.scheduler.running])
        if self._prefix is not None:
            self._prefix.clear()

    def memory(self) -> int:
        held = [*self._model.weights.tensors(), self._model.cache.keys, self._model.cache.values]
        held += self._prefix.tensors() if self._prefix is not None else []
        return sum(tensor.nbytes for tensor in held)

    def step(self, *, admit: bool) -> list[tuple[Sequence, Result]]:
        """One step; requests that ended in it are already removed from the scheduler."""
        scheduler = self.scheduler
        work = scheduler.plan(admit=admit)
        rows = [s for s in scheduler.running[: scheduler.decoding] if isinstance(s, Generation)]
        if not work and not rows:
            return []
        self._make_room(work, rows)
        decode = self._advance(rows)
        spans = [item.span for item in work]
        hidden_RH = self._model.forward(self._tokens(work), decode, spans)
        self._after_prefill(work)
        completed = [item.sequence for item in work if item.sequence.prefilled]
        started = [s for s in completed if isinstance(s, Generation)]
        ended: list[Sequence] = [s for s in completed if isinstance(s, Scoring)]
        drawn = decode.tokens if decode is not None else 0
        drawn += sum(1 + len(s.drafted) for s in started)
        if drawn:
            ended += self._draw(rows, started, hidden_RH[:drawn])
        self._score(work, hidden_RH[drawn:])
        self._update_batch(started, ended)
        self.counters.paused = scheduler.places.paused
        return [(sequence, sequence.result()) for sequence in ended]

    def _make_room(self, work: Rows[Work], rows: Rows[Generation]) -> None:
        """Grow the cache to what the step writes, and copy cached prefixes into the slots of new requests."""
        decoding = max((s.stored + len(s.drafted) for s in rows), default=0) + 1
        longest = max((item.span.stop for item in work), default=0)
        self._model.cache.reserve(len(self.scheduler.running), max(decoding, longest))
        for item in work:
            if self._prefix is not None and item.loaded:
                self._prefix.load(item.sequence.keys[: item.loaded], item.span.slot)
                self.counters.cached[item.sequence.priority] += item.loaded * BLOCK

    def _advance(self, rows: Rows[Generation]) -> DecodeBatch | None:
        """The decode batch of this step: moved on by one token if nothing else changed, else built anew."""
        batch, cache = self._decode, self._model.cache
        changed, self._changes = self._changes != self.scheduler.changes, self.scheduler.changes
        if not rows:
            self._last_tokens, self._decode = self._last_tokens[:0], None
            return None
        if any(s.drafted for s in rows):
            self._changes = -1  # the step after this one has other widths
            self._last_tokens = torch.tensor([t for s in rows for t in (s.tokens[-1], *s.drafted)])
            return DraftBatch(cache, [s.stored for s in rows], [1 + len(s.drafted) for s in rows])
        if changed or batch is None:
            self._sampler = Sampler([s.sampling for s in rows])
            self._last_tokens = torch.tensor([s.tokens[-1] for s in rows])
        elif batch.steps_left > 0 and batch.generation == cache.generation:
            batch.advance()
            return batch
        self._decode = DecodeBatch(cache, [s.stored for s in rows])
        return self._decode

    def _tokens(self, work: Rows[Work]) -> Tensor:
        if not work:
            return self._last_tokens
        ids = [part for item in work for part in _given(item.sequence, item.span)]
        prompts = torch.as_tensor(np.concatenate(ids))
        return torch.cat((self._last_tokens, prompts)) if len(self._last_tokens) else prompts

    def _after_prefill(self, work: Rows[Work]) -> None:
        for item in work:
            sequence, span = item.sequence, item.span
            stop = min(span.stop, len(sequence.ids))
            sequence.computed = stop
            self.counters.prefilled[sequence.priority] += stop - span.start
            if self._prefix is not None and sequence.version == self.scheduler.version:
                blocks = min(stop, sequence.prompt_length) // BLOCK
                self._prefix.store(sequence.keys[:blocks], span.start // BLOCK, sequence.slot)

    def _draw(self, rows: Rows[Generation], started: Rows[Generation], hidden_RH: Tensor) -> list[Generation]:
        """Draw a token at every position computed, and emit those whose drafts before them were right.

        Returns the sequences that this ended.
        """
        if len(hidden_RH) == len(rows):  # nobody started and nobody drafted: the same batch as before
            every, sampler = rows, self._sampler
            uniforms = [s.uniforms.next() for s in rows]
        else:
            every = [*rows, *started]
            settings = [s.sampling for s in every for _ in range(1 + len(s.drafted))]
            sampler = Sampler(settings)
            uniforms = [u for s in every for u in s.uniforms.ahead(1 + len(s.drafted))]
        tokens_R, logprobs_R = sampler.draw(self._model.logits(hidden_RH), uniforms)
        self._last_tokens = tokens_R[: len(rows)]  # read again only if no drafts were among them
        tokens, logprobs = tokens_R.tolist(), logprobs_R.tolist()
        if every is rows:
            ended = [s for s, token, logprob in zip(rows, tokens, logprobs) if self._takes(s, token, logprob)]
        else:
            ended, at = [], 0
            for sequence in every:
                after = at + 1 + len(sequence.drafted)
                if self._verify(sequence, tokens[at:after], logprobs[at:after]):
                    ended.append(sequence)
                at = after
        for sequence in every:
            if sequence.sampling.draft is not None:
                sequence.draft()
        return ended

    def _takes(self, sequence: Generation, token: int, logprob: float) -> bool:
        """Emit one token; True if it ends the sequence."""
        sequence.tokens.append(token)
        sequence.logprobs.append(logprob)
        self.counters.generated += 1
        if token in sequence.watch or len(sequence.tokens) >= sequence.sampling.max_tokens:
            reason = self._stopping.reason(sequence)
            if reason is not None:
                sequence.stop_reason = reason
                return True
        return False

    def _verify(self, sequence: Generation, tokens: list[int], logprobs: list[float]) -> bool:
        """Emit tokens up to the first that is not as drafted, or that ends the sequence: then True."""
        drafted = sequence.drafted
        self.counters.drafted += len(drafted)
        for emitted, (token, logprob) in enumerate(zip(tokens, logprobs), start=1):
            ended = self._takes(sequence, token, logprob)
            right = emitted <= len(drafted) and token == drafted[emitted - 1]
            self.counters.accepted += right
            if ended or not right:
                break
        sequence.uniforms.use(emitted)
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
        targets_R = torch.as_tensor(np.concatenate([targets for _, targets in scored]))
        size = max(1, SCORE_ELEMENTS // self._model.weights.config.vocab_size)
        wanted = max(sequence.wanted for sequence, _ in scored)
        logprobs: list[float] = []
        others: list[tuple[list[int], list[float]]] = []
        for i in range(0, len(targets_R), size):
            logits = self._model.logits(hidden_RH[i : i + size])
            chosen_R, tokens_RA, highest_RA = gather_logprobs(logits, targets_R[i : i + size], wanted)
            logprobs += chosen_R.tolist()
            others += zip(tokens_RA.tolist(), highest_RA.tolist())
        at = 0
        for sequence, targets in scored:
            sequence.logprobs += logprobs[at : at + len(targets)]
            for ids, values in others[at : at + len(targets)]:
                sequence.other_ids += ids[: sequence.wanted]
                sequence.other_logprobs += values[: sequence.wanted]
            at += len(targets)
        self.counters.scored += at

    def _update_batch(self, started: Rows[Generation], ended: Rows[Sequence]) -> None:
        now = time.perf_counter()
        # From the last slot down: then most holes are at the end and nothing has to be moved.
        for sequence in sorted(ended, key=lambda s: -s.slot):
            if isinstance(sequence, Generation):
                self.counters.completed[sequence.priority] += 1
                self.counters.seconds[sequence.priority] += now - sequence.admitted
                if self._prefix is not None and sequence.version == self.scheduler.version:
                    self._store_generated(self._prefix, sequence)
            self.scheduler.remove(sequence)
        for generation in started:
            if generation.slot >= 0:
                self.scheduler.promote(generation)

    def _store_generated(self, prefix: PrefixCache, sequence: Generation) -> None:
        # A thinking budget continues a response that was cut short; one that ended by itself is not continued.
        if sequence.stop_reason is not StopReason.EOS and sequence.stored // BLOCK > len(sequence.keys):
            ids = np.concatenate((sequence.ids, np.array(sequence.tokens[:-1], dtype=np.int64)))
            prefix.store(block_keys(ids), len(sequence.keys), sequence.slot)


def _given(sequence: Sequence, span: Span) -> list[IdArray]:
    """The tokens of a span: of the prompt, and of the draft after it."""
    ids = sequence.ids[span.start : span.stop]
    return [ids, np.array(sequence.drafted, dtype=np.int64)] if span.stop > len(sequence.ids) else [ids]


def _targets(sequence: Scoring, span: Span) -> IdArray:
    """The scored tokens whose log-probs this span gives: position p predicts token p + 1 - prompt_length."""
    first = max(span.start, span.wanted) - span.wanted
    return sequence.targets[first : max(first, span.stop - span.wanted)]
