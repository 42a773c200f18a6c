"""Drafts change when tokens are computed, never which tokens come out or how likely they are.

A tiny vocabulary makes the claim provable: every sequence is enumerated. The uniform numbers of a request are
laid out by the test, so the set of numbers that gives a sequence is seen to be exactly the one of plain sampling,
and with it its probability.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch

from actfirst.engines.base import Draft, Sampling
from actfirst.engines.embedded import EmbeddedEngine
from actfirst.engines.embedded import engine as engine_module
from actfirst.errors import EngineError
from actfirst.models.files import ModelFiles
from actfirst.models.shapes import HEAD, ModelShape
from actfirst.records import StopReason
from tests.engines.contract import Judge, MakeEngine, close, prompts, section

VOCABULARY, LENGTH, PROMPT = 5, 3, [3, 1, 4, 1, 0, 2]


class TestDraft:
    def test_the_likely_output_is_drafted_as_long_as_it_fits(self) -> None:
        draft = Draft(likely=(7, 8, 9))
        assert draft.after([]) == (7, 8, 9)
        assert draft.after([7, 8]) == (9,)
        assert draft.after([7, 1]) == draft.after([7, 8, 9]) == draft.after([7, 8, 9, 1]) == ()

    def test_what_all_possible_outputs_share_next_is_forced(self) -> None:
        draft = Draft(possible=tuple(sorted([(1, 2, 3, 9), (1, 2, 4, 9), (1, 2, 4, 5, 9)])))
        assert draft.after([]) == (1, 2)
        assert draft.after([1, 2]) == ()
        assert draft.after([1, 2, 3]) == (9,)
        assert draft.after([1, 2, 4]) == ()
        assert draft.after([1, 2, 4, 5]) == (9,)
        assert draft.after([2]) == draft.after([1, 2, 3, 9]) == draft.after([1, 2, 3, 9, 9]) == ()

    def test_after_a_wrong_guess_the_possible_outputs_speak(self) -> None:
        draft = Draft(likely=(1, 3, 9), possible=((1, 2, 9), (1, 3, 9)))
        assert draft.after([1]) == (3, 9)
        assert draft.after([1, 2]) == (9,)

    def test_against_a_naive_reading(self) -> None:
        rng = random.Random(0)
        for _ in range(500):
            options = sorted(
                {tuple(rng.choices(range(3), k=rng.randint(1, 5))) for _ in range(rng.randint(0, 8))}
            )
            given = rng.choices(range(3), k=rng.randint(0, 4))
            fitting = [o[len(given) :] for o in options if list(o[: len(given)]) == given]
            shared: list[int] = []
            for tokens in zip(*fitting):
                if len(set(tokens)) > 1:
                    break
                shared.append(tokens[0])
            assert Draft(possible=tuple(options)).after(given) == tuple(shared)


@pytest.fixture(scope="module")
def tiny() -> Callable[[], EmbeddedEngine]:
    model = ModelShape(
        VOCABULARY, 16, 24, 2, 2, 1, 8, tied_embeddings=True, rope_theta=10000.0, max_positions=64
    )
    generator = torch.Generator().manual_seed(1)
    weights = {
        name: torch.randn(shape, generator=generator) * (0.6 if len(shape) > 1 else 0.2) + (len(shape) == 1)
        for name, shape in model.tensors().items()
        if name != HEAD
    }
    files = ModelFiles(model, frozenset(), None)
    return lambda: EmbeddedEngine(files, weights, section(max_concurrency=128))


@pytest.fixture
async def engine(tiny: Callable[[], EmbeddedEngine]) -> AsyncIterator[EmbeddedEngine]:
    made = tiny()
    yield made
    await made.close()


DRAFTS = {
    "none": None,
    "likely": Draft(likely=(2, 0, 1)),
    "longer than allowed": Draft(likely=(0, 0, 0, 0, 0, 0)),
    "forced": Draft(possible=((1, 2, 0), (1, 2, 3), (1, 4, 4))),
    "both": Draft(likely=(1, 0, 0), possible=((1, 2, 0), (3, 2, 3), (3, 2, 4))),
}
SETTINGS = [
    Sampling(LENGTH),
    Sampling(LENGTH, temperature=0.6),
    Sampling(LENGTH, temperature=1.7, top_k=3),
    Sampling(LENGTH, top_p=0.8),
]


async def conditionals(engine: EmbeddedEngine, sampling: Sampling) -> dict[tuple[int, ...], torch.Tensor]:
    """The distribution after every beginning, from the engine's scores and the written definition of sampling."""
    beginnings = [b for n in range(LENGTH) for b in product(range(VOCABULARY), repeat=n)]
    scored = await asyncio.gather(
        *(engine.score([*PROMPT, *b], [token]) for b in beginnings for token in range(VOCABULARY))
    )
    rows = torch.tensor([s[0] for s in scored], dtype=torch.float64).view(-1, VOCABULARY)
    return {b: Judge.processed(row, sampling).exp() for b, row in zip(beginnings, rows, strict=True)}


@pytest.mark.parametrize("name", DRAFTS)
@pytest.mark.parametrize("sampling", SETTINGS, ids=["plain", "cold", "top-k", "top-p"])
async def test_every_sequence_has_exactly_the_probability_of_plain_sampling(
    engine: EmbeddedEngine, name: str, sampling: Sampling, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Inverse-CDF sampling gives a sequence iff each uniform number lies in its token's interval. The corners and
    the middle of that box are tried for every sequence: the box, and so the probability, is the plain one."""
    given = await conditionals(engine, sampling)
    boxes: list[tuple[tuple[int, ...], list[float]]] = []
    likelihood: dict[tuple[int, ...], float] = {}
    for tokens in product(range(VOCABULARY), repeat=LENGTH):
        steps = [(given[tokens[:i]], tokens[i]) for i in range(LENGTH)]
        likelihood[tokens] = float(torch.stack([p[t] for p, t in steps]).prod())
        if all(p[t] > 1e-3 for p, t in steps):
            for part in (0.02, 0.5, 0.98):
                boxes.append((tokens, [_inside(p, t, part, sampling) for p, t in steps]))
    assert sum(likelihood.values()) == pytest.approx(1.0)
    laid_out = {seed: numbers for seed, (_, numbers) in enumerate(boxes)}
    monkeypatch.setattr(engine_module, "Uniforms", lambda seed: _Written(laid_out[seed]))
    completions = await asyncio.gather(
        *(engine.generate(PROMPT, replace(sampling, seed=s, draft=DRAFTS[name])) for s in laid_out)
    )
    for (tokens, _), done in zip(boxes, completions, strict=True):
        assert done.token_ids == tokens
        expected = [float(given[tokens[:i]][tokens[i]].log()) for i in range(LENGTH)]
        assert close(done.logprobs, expected, 1e-4)
    assert len(boxes) > 40
    assert (engine.stats().drafted_tokens > 0) is (name != "none")


def _inside(probs: torch.Tensor, token: int, part: float, sampling: Sampling) -> float:
    """A uniform number inside the interval of `token`. Cut distributions are laid out by falling probability."""
    order = probs.argsort(descending=True) if sampling.top_k or sampling.top_p < 1 else torch.arange(VOCABULARY)
    below = float(probs[order[: int((order == token).nonzero())]].sum())
    return below + part * float(probs[token])


class _Written(engine_module.Uniforms):
    """Numbers that a test wrote down; it is an error to use more than one for each token."""

    def __init__(self, numbers: list[float]) -> None:
        super().__init__(0)
        self._ahead = [*numbers]


@pytest.mark.parametrize("name", ["likely", "both"])
async def test_many_draws_follow_the_distribution(engine: EmbeddedEngine, name: str) -> None:
    """Chi-square of 2,500 pairs of tokens; with 24 degrees of freedom 51.2 is exceeded once in 1,000."""
    draws, sampling = 2500, Sampling(2, temperature=1.3)
    given = await conditionals(engine, sampling)
    completions = await asyncio.gather(
        *(engine.generate(PROMPT, replace(sampling, seed=s, draft=DRAFTS[name])) for s in range(draws))
    )
    counts = Counter(done.token_ids for done in completions)
    chi_square = 0.0
    for pair in product(range(VOCABULARY), repeat=2):
        expected = draws * float(given[()][pair[0]] * given[pair[:1]][pair[1]])
        chi_square += (counts[pair] - expected) ** 2 / expected
    assert chi_square < 51.2
    assert engine.stats().accepted_tokens > draws // 20


async def test_greedy_decoding_is_unchanged(engine: EmbeddedEngine) -> None:
    plain = await engine.generate(PROMPT, Sampling(LENGTH, temperature=0.0))
    for draft in (*DRAFTS.values(), Draft(likely=plain.token_ids)):
        done = await engine.generate(PROMPT, Sampling(LENGTH, temperature=0.0, draft=draft))
        assert done.token_ids == plain.token_ids


class TestSteps:
    async def test_a_right_draft_costs_one_step(self, make_embedded: MakeEngine, endless: Path) -> None:
        engine = await make_embedded(endless)
        prompt = prompts(1, seed=40)[0]
        plain = await engine.generate(prompt, Sampling(12, seed=3))
        before = engine.stats()
        done = await engine.generate(prompt, Sampling(12, seed=3, draft=Draft(likely=plain.token_ids)))
        after = engine.stats()
        assert done.token_ids == plain.token_ids
        assert after.steps - before.steps == 1
        assert after.accepted_tokens == after.drafted_tokens == 11  # the last token comes out of the same pass

    async def test_a_tree_of_outputs_costs_a_step_for_each_branching(
        self,
        make_embedded: MakeEngine,
        endless: Path,
    ) -> None:
        engine = await make_embedded(endless)
        prompt = prompts(1, seed=41)[0]
        a = (await engine.generate(prompt, Sampling(12, seed=3))).token_ids
        others = [(*a[:4], a[4] + 1, 9, 9), (*a[:8], a[8] + 1, 9)]
        before = engine.stats().steps
        done = await engine.generate(
            prompt, Sampling(12, seed=3, draft=Draft(possible=tuple(sorted([a, *others]))))
        )
        assert done.token_ids == a
        assert engine.stats().steps - before == 3  # prompt and 4 tokens; up to the second branching; the rest

    async def test_a_stop_string_inside_a_draft_ends_the_request_there(
        self,
        make_embedded: MakeEngine,
        endless: Path,
    ) -> None:
        engine, judge = await make_embedded(endless), Judge(endless)
        prompt = prompts(1, seed=42)[0]
        plain = await engine.generate(prompt, Sampling(12, seed=5))
        stop = next(t for t in (judge.tokenizer.decode([i]) for i in plain.token_ids[3:]) if t.isascii())
        expected = await engine.generate(prompt, Sampling(12, seed=5, stop=(stop,)))
        done = await engine.generate(
            prompt, Sampling(12, seed=5, stop=(stop,), draft=Draft(likely=plain.token_ids))
        )
        assert done.token_ids == expected.token_ids
        assert done.stop_reason is StopReason.STOP_STRING

    async def test_drafted_and_plain_requests_share_steps_and_stay_right(
        self,
        make_embedded: MakeEngine,
        checkpoint: Path,
        judge: Judge,
    ) -> None:
        """Right drafts, drafts that go wrong at any place, and none: log-probs are the judge's, tokens the plain
        ones, whatever the widths in a step are and wherever rejected keys and values were left behind."""
        engine = await make_embedded(checkpoint, max_concurrency=7, max_prefill_tokens=64)
        rng, requests = random.Random(1), []
        for i, prompt in enumerate(prompts(24, seed=43)):
            plain = await engine.generate(prompt, Sampling(20, seed=i))
            tokens = [*plain.token_ids]
            for _ in range(i % 3):
                tokens[rng.randrange(len(tokens))] = rng.randrange(380)
            options = tuple(sorted({plain.token_ids, tuple(tokens), (*plain.token_ids[:2], 1, 2, 3)}))
            draft = (None, Draft(likely=tuple(tokens)), Draft(possible=options))[i % 3 if i < 20 else 1]
            requests.append((prompt, Sampling(20, seed=i, draft=draft), plain))
        done = await asyncio.gather(*(engine.generate(p, s) for p, s, _ in requests))
        for (prompt, _, plain), completion in zip(requests, done, strict=True):
            assert completion.token_ids == plain.token_ids
            assert completion.stop_reason is plain.stop_reason
            assert close(completion.logprobs, judge.logprobs(prompt, completion.token_ids), 1e-4)

    async def test_what_was_drafted_in_vain_never_reaches_the_prefix_cache(
        self,
        make_embedded: MakeEngine,
        endless: Path,
    ) -> None:
        engine, judge = await make_embedded(endless), Judge(endless)
        prompt = list(range(100, 116))
        wrong = Draft(likely=tuple(range(200, 240)))
        thought = await engine.generate(prompt, Sampling(33, seed=1, draft=wrong))
        longer = [*prompt, *thought.token_ids, 11]
        done = await engine.generate(longer, Sampling(4, seed=2))
        assert engine.stats().cached_tokens >= 48
        assert close(done.logprobs, judge.logprobs(longer, done.token_ids), 1e-4)

    async def test_a_draft_of_unknown_tokens_is_refused(self, engine: EmbeddedEngine) -> None:
        with pytest.raises(EngineError, match="draft token"):
            await engine.generate(PROMPT, Sampling(2, draft=Draft(likely=(1, VOCABULARY))))
