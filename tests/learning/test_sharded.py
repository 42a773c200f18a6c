"""The learner over two gloo ranks: the same update as one process, and checkpoints for any number of ranks.

Stated tolerance in float32: gradients agree to 2e-5 of their norm (the order of sums differs), statistics to 1e-5.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch import Tensor

from actfirst.config.sections import LearnerSection
from actfirst.errors import CheckpointError, UpdateError
from actfirst.learning.checkpoint import load
from actfirst.learning.sharded import ShardedLearner
from actfirst.learning.sharded_checkpoint import restore_sharded, take_sharded, write_sharded
from actfirst.learning.update import Learner
from actfirst.records import UpdateStats
from tests.learning.making import learning, make_samples, plain_model
from tests.learning.ranks import on_ranks
from tests.support.tiny_models import make_tiny_checkpoint

OPTIONS = learning(learning_rate=1e-3, token_budget=120)
LORA = OPTIONS.model_copy(update={"adapter_rank": 4, "adapter_alpha": 8.0})
needs_peft = pytest.mark.skipif(find_spec("peft") is None, reason="needs the extra `lora`")

Trained = tuple[list[UpdateStats], dict[str, Tensor], dict[str, Tensor]]


def train(learner: Learner, *counts: int) -> Trained:
    """Updates on `counts` samples each; statistics, weights and optimiser afterwards."""
    stats = [learner.update(make_samples(count, seed=place)) for place, count in enumerate(counts)]
    state = learner.state()
    return stats, {name: value.clone() for name, value in state.weights.items()}, dict(state.optimizer)


Variant = tuple[LearnerSection, tuple[int, ...]]


def on_this_rank(folder: Path, variants: dict[str, Variant], copies: int = 1) -> dict[str, Trained]:
    return {
        name: train(ShardedLearner(folder, options, copies=copies), *counts)
        for name, (options, counts) in variants.items()
    }


def gradient(optimizer: dict[str, Tensor]) -> Tensor:
    """The first moments: after the first update, a tenth of the clipped gradient."""
    return torch.cat([optimizer[name].flatten() for name in sorted(optimizer) if name.startswith("exp_avg.")])


def assert_same_update(one: Trained, many: Trained) -> None:
    for ours, theirs in zip(one[0], many[0], strict=True):
        for key in ("loss", "advantage", "grad_norm", "clip_fraction"):
            assert getattr(theirs, key) == pytest.approx(getattr(ours, key), rel=1e-5, abs=1e-7), key
        assert (theirs.tokens, theirs.supervised_tokens) == (ours.tokens, ours.supervised_tokens)
        assert theirs.extra["ratio_max"] == pytest.approx(ours.extra["ratio_max"], rel=1e-5)
    expected = gradient(one[2])
    assert float((gradient(many[2]) - expected).norm()) <= 2e-5 * float(expected.norm())


VARIANTS: dict[str, Variant] = {
    "plain": (OPTIONS, (13,)),
    "recomputed": (OPTIONS.model_copy(update={"activation_checkpointing": True}), (13,)),
    "bfloat16": (OPTIONS.model_copy(update={"precision": "bfloat16"}), (13,)),
    "one sample": (OPTIONS, (1,)),
    **({"adapters": (LORA, (13,))} if find_spec("peft") else {}),
}


@pytest.fixture(scope="module")
def two_ranks(qwen3: Path) -> list[dict[str, Trained]]:
    """What each of two ranks has after each variant; started once, because starting takes longest."""
    return on_ranks(2, on_this_rank, qwen3, VARIANTS)


@pytest.mark.parametrize("name", [name for name in VARIANTS if name != "bfloat16"])
def test_an_update_of_two_ranks_is_the_update_of_one_process(
    qwen3: Path, two_ranks: list[dict[str, Trained]], name: str
) -> None:
    """Also with recomputed activations, with adapters, and where a rank has no sample at all."""
    options, counts = VARIANTS[name]
    one, many = train(Learner(qwen3, options), *counts), two_ranks[0][name]
    assert_same_update(one, many)
    for weight, expected in one[1].items():
        assert torch.allclose(many[1][weight], expected, atol=2e-4), weight
    assert two_ranks[1][name][1] == {}  # whole weights reach the first rank only


def test_micro_batches_keep_to_the_budget_of_each_rank(two_ranks: list[dict[str, Trained]]) -> None:
    assert two_ranks[0]["plain"][0][0].extra["micro_batches"] == 4


def assert_rounded_alike(folder: Path, many: Trained, *, most: float) -> None:
    """Ranks differ from one process in bfloat16 hardly more than that differs from float32, which is `most` of it."""
    half = VARIANTS["bfloat16"][0]
    exact, one, several = (
        gradient(t[2]) for t in (train(Learner(folder, OPTIONS), 13), train(Learner(folder, half), 13), many)
    )
    assert float((several - one).norm()) <= 1.5 * float((one - exact).norm()) < most * float(exact.norm())
    assert all(value.dtype == torch.float32 for value in many[1].values())  # the weights that are kept


def test_bfloat16_differs_from_one_process_no_more_than_from_float32(
    qwen3: Path, two_ranks: list[dict[str, Trained]]
) -> None:
    assert_rounded_alike(qwen3, two_ranks[0]["bfloat16"], most=0.5)


@pytest.mark.slow
def test_the_other_architecture_agrees_too(llama: Path) -> None:
    many = on_ranks(2, on_this_rank, llama, {"plain": VARIANTS["plain"]})[0]["plain"]
    assert_same_update(train(Learner(llama, OPTIONS), 13), many)


@pytest.mark.parametrize(
    "architecture",
    [
        "gemma3",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("olmo2", "mistral", "phi", "smollm3", "qwen3_moe")
        ),
    ],
)
def test_models_that_run_by_their_own_forward_pass_are_divided_too(architecture: str, tmp_path: Path) -> None:
    """Layer by layer, in all variants of the hand-written ones."""
    folder = make_tiny_checkpoint(tmp_path, architecture=architecture)
    many = on_ranks(2, on_this_rank, folder, VARIANTS)[0]
    assert_rounded_alike(folder, many["bfloat16"], most=2.0)  # some random weights round badly
    for name, (options, counts) in VARIANTS.items():
        one = Learner(folder, options)
        assert one.general
        if name != "bfloat16":
            assert_same_update(train(one, *counts), many[name])


def test_recomputed_activations_change_nothing_at_all(qwen3: Path) -> None:
    again = OPTIONS.model_copy(update={"activation_checkpointing": True})
    kept, recomputed = (gradient(train(Learner(qwen3, options), 5)[2]) for options in (OPTIONS, again))
    assert torch.equal(kept, recomputed)


@needs_peft
def test_engines_get_adapters_multiplied_out_and_the_rest_stays_frozen(checkpoint: Path) -> None:
    """Also biases of projections (Qwen2's), which have no adapters."""
    learner = Learner(checkpoint, LORA)
    before = plain_model(checkpoint).state_dict()
    assert learner.weights().keys() == before.keys()
    assert all(torch.equal(learner.weights()[name], before[name]) for name in before)
    train(learner, 5, 5)
    state, name = learner.state(), "model.layers.1.mlp.up_proj"
    down, up = (state.adapters[f"{name}.lora_{part}.default.weight"] for part in "AB")
    assert torch.allclose(state.weights[f"{name}.weight"], before[f"{name}.weight"] + 2.0 * up @ down)
    assert torch.equal(state.weights["model.embed_tokens.weight"], before["model.embed_tokens.weight"])
    assert not torch.equal(state.weights[f"{name}.weight"], before[f"{name}.weight"])


def refusals(folder: Path) -> tuple[str, int, dict[str, Tensor]]:
    learner = ShardedLearner(folder, OPTIONS)
    broken = replace(make_samples(1)[0], id="broken", weight=1e38)
    try:
        learner.update([*make_samples(4), broken])
    except UpdateError as error:
        return str(error), learner.version, dict(learner.weights())
    raise AssertionError("the broken sample was trained on")


def test_a_gradient_that_is_not_finite_is_refused_on_all_ranks(qwen3: Path) -> None:
    (text, version, weights), (elsewhere, _, _) = on_ranks(2, refusals, qwen3)
    assert text == elsewhere
    assert "samples: broken" in text
    assert version == 0
    before = plain_model(qwen3).state_dict()
    assert all(torch.equal(weights[name], before[name]) for name in weights)


def save_here(folder: Path, options: LearnerSection, target: Path, copies: int = 1) -> Trained:
    """Two updates, a checkpoint, and beside it the update after it."""
    learner = ShardedLearner(folder, options, copies=copies)
    train(learner, 6, 7)
    taken = take_sharded(learner, make_samples(3), {"delivered": 5}, copy=True)
    with ThreadPoolExecutor(1) as beside:
        written = beside.submit(write_sharded, target, taken, export=True)
        trained = train(learner, 9)
        written.result()
    return trained


def resume_here(folder: Path, options: LearnerSection, checkpoint: Path, copies: int = 1) -> Trained:
    learner = ShardedLearner(folder, options, copies=copies)
    restore_sharded(learner, load(checkpoint))
    assert learner.version == 2
    return train(learner, 9)


@pytest.mark.parametrize(
    ("architecture", "options"),
    [
        pytest.param("qwen3", OPTIONS, id="all weights"),
        pytest.param("qwen3", LORA, id="adapters", marks=[needs_peft, pytest.mark.slow]),
        pytest.param("gemma3", OPTIONS, id="own forward pass", marks=pytest.mark.slow),
    ],
)
def test_a_checkpoint_of_two_ranks_resumes_on_three_and_in_one_process(
    tmp_path: Path, architecture: str, options: LearnerSection
) -> None:
    model = make_tiny_checkpoint(tmp_path / "model", architecture=architecture)
    expected = on_ranks(2, save_here, model, options, tmp_path / "saved")[0]
    (folder,) = (tmp_path / "saved").iterdir()
    checkpoint = load(folder)
    assert checkpoint.trainer_state == {"delivered": 5}
    assert len(checkpoint.samples) == 3

    alone = Learner(model, options)
    alone.restore(checkpoint.learner)
    assert_same_update(expected, train(alone, 9))
    assert_same_update(expected, on_ranks(3, resume_here, model, options, folder)[0])

    shards = sorted(path.name for path in (folder / "training" / "shards").iterdir())
    assert shards == ["rank-00000.safetensors", "rank-00001.safetensors"]  # nothing that is unpickled
    exported = plain_model(folder / "model").state_dict()
    assert all(torch.equal(exported[name], value) for name, value in checkpoint.learner.weights.items())
    half = plain_model(folder / "bfloat16").state_dict()
    assert all(torch.equal(value, exported[name].bfloat16().float()) for name, value in half.items())


def copies_here(folder: Path, variants: dict[str, Variant]) -> tuple[int, dict[str, Trained]]:
    """Numbers of all weights that this rank holds of two copies, and what `on_this_rank` finds."""
    held = ShardedLearner(folder, OPTIONS, copies=2)._parameters.values()
    return sum(part.to_local().numel() for part in held), on_this_rank(folder, variants, 2)  # type: ignore[attr-defined]


class TestTwoCopiesOfTwoRanks:
    """HSDP: four ranks, of which two hold all weights together."""

    def test_a_rank_holds_half_of_all_weights_and_an_update_is_that_of_one_process(self, qwen3: Path) -> None:
        held, trained = zip(*on_ranks(4, copies_here, qwen3, VARIANTS))
        whole = sum(tensor.numel() for tensor in plain_model(qwen3).parameters())
        assert held[:2] == held[2:]
        assert sum(held[:2]) == whole
        assert_rounded_alike(qwen3, trained[0]["bfloat16"], most=0.5)
        for name, (options, counts) in VARIANTS.items():
            if name != "bfloat16":
                assert_same_update(train(Learner(qwen3, options), *counts), trained[0][name])
        assert all(one[1] == {} for elsewhere in trained[1:] for one in elsewhere.values())

    @pytest.mark.slow
    def test_a_checkpoint_is_written_once_and_resumes_with_any_division(
        self, qwen3: Path, tmp_path: Path
    ) -> None:
        expected = on_ranks(4, save_here, qwen3, OPTIONS, tmp_path / "saved", 2)[0]
        (folder,) = (tmp_path / "saved").iterdir()
        shards = sorted(path.name for path in (folder / "training" / "shards").iterdir())
        assert shards == ["rank-00000.safetensors", "rank-00001.safetensors"]
        alone = Learner(qwen3, OPTIONS)
        alone.restore(load(folder).learner)
        assert_same_update(expected, train(alone, 9))
        assert_same_update(expected, on_ranks(3, resume_here, qwen3, OPTIONS, folder)[0])
        assert_same_update(expected, on_ranks(4, resume_here, qwen3, OPTIONS, folder, 2)[0])


def fail_to_save(folder: Path, target: Path) -> str:
    learner = ShardedLearner(folder, OPTIONS)
    train(learner, 4)
    try:
        write_sharded(target, take_sharded(learner, [], {}, copy=False))
    except CheckpointError as error:
        return str(error)
    raise AssertionError("a checkpoint was written into a file")


def test_a_checkpoint_that_cannot_be_written_is_an_error_on_every_rank(qwen3: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    texts = on_ranks(2, fail_to_save, qwen3, tmp_path / "file")
    assert len(set(texts)) == 1
    assert "could not be written" in texts[0]
