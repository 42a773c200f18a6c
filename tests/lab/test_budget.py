"""The learner's budget at the paper's sizes: a change that moves more bytes, or computes more, fails here."""

from __future__ import annotations

import pytest
import torch

from actfirst.config.load import resolve
from actfirst.lab.speed.budget import A100, Budget, Counted, Work, budget
from actfirst.lab.speed.peak import Held, peak
from actfirst.models.shapes import NAMED
from actfirst.training.footprint import footprints

WORK = Work()
# Megabytes that each token moves; the figures of docs/scaling.md.
MOVED = {("plain", True): 40.60, ("fused", True): 12.41, ("fused", False): 10.17}


def test_bytes_and_flops_of_single_operations_by_hand() -> None:
    with Counted() as counted:
        a, b = torch.ones(4, 8), torch.ones(8, 2)
        counted.moved.clear()
        a @ b
        a + a
        a.t()
        a.index_select(0, torch.tensor([1]))
    assert counted.flops == {"mm": 2 * 4 * 8 * 2}
    # Two inputs and a result of 32 entries; one row of eight read and written, and an index.
    assert counted.moved["add"] == 3 * 32 * 4
    assert counted.moved["index_select"] == 2 * 8 * 4 + 8


def test_the_share_of_the_peak_by_hand() -> None:
    one = Budget("fused", recomputed=False, flops=2 * A100.flops, useful=A100.flops, moved=A100.bandwidth)
    assert one.mfu() == pytest.approx(1 / (2 / A100.matmul_share + 1 / A100.bandwidth_share))


@pytest.fixture(scope="module")
def small() -> dict[tuple[str, bool], Budget]:
    shape = NAMED["Qwen3-0.6B"]
    ways = [("plain", True), ("fused", True), ("fused", False)]
    return {(kernels, again): budget(shape, kernels, recomputed=again) for kernels, again in ways}


def test_useful_flops_are_those_of_the_weights_and_of_attention(small: dict[tuple[str, bool], Budget]) -> None:
    """Six for each weight that a token meets, and attention; the head and most of the last layer meet few."""
    shape = NAMED["Qwen3-0.6B"]
    tokens, supervised = WORK.tokens, WORK.sequences * (WORK.response + 1)
    norms = 2 * shape.hidden_size + 2 * shape.head_dim
    layers = shape.layers * (shape.layer_parameters - norms)
    everywhere = 2 * shape.keys * shape.hidden_size  # keys and values of the last layer
    last = shape.layer_parameters - norms - everywhere
    weights = (
        layers - last * (1 - supervised / tokens) + shape.vocab_size * shape.hidden_size * supervised / tokens
    )
    length = WORK.prompt + WORK.response - 1
    attention = shape.layers * 4 * shape.queries * length / 2 * 3.5
    for one in small.values():
        assert one.useful == pytest.approx(6 * weights + attention, rel=0.02)


def test_a_gpu_reaches_more_than_forty_percent_by_count_also_where_activations_are_recomputed(
    small: dict[tuple[str, bool], Budget],
) -> None:
    plain, fused, kept = small["plain", True], small["fused", True], small["fused", False]
    assert fused.mfu() >= 0.40
    assert kept.mfu() > fused.mfu() > plain.mfu()
    assert fused.flops == pytest.approx(plain.flops, rel=0.01)


def test_no_more_bytes_are_moved_than_were_counted(small: dict[tuple[str, bool], Budget]) -> None:
    """Two percent are for other versions of torch."""
    for way, megabytes in MOVED.items():
        assert small[way].moved <= 1.02e6 * megabytes, way


@pytest.mark.slow
@pytest.mark.parametrize(("name", "megabytes"), [("Qwen3-1.7B", 19.75), ("Qwen3-4B", 36.31)])
def test_the_larger_students_stay_within_theirs(name: str, megabytes: float) -> None:
    one = budget(NAMED[name], "fused", recomputed=True)
    assert one.mfu() >= 0.40
    assert one.moved <= 1.02e6 * megabytes


def test_bytes_are_held_from_the_moment_they_are_made_until_nobody_holds_them() -> None:
    held = Held()
    with held:
        a = torch.ones(100)  # 400 bytes
        b = a + 1
        del a
        c = b[:50] * 2  # a view holds nothing of its own
        del b, c
    assert (held.most, held.now) == (800, 0)


def test_what_lets_go_of_its_memory_and_lives_on_holds_nothing() -> None:
    """As the weights that FSDP has gathered."""
    held = Held()
    with held:
        a = torch.ones(100)
        a.untyped_storage().resize_(0)
        b = torch.ones(50)
        a.untyped_storage().resize_(400)
        assert (held.most, held.now) == (600, 600)
        del a, b
    assert (held.most, held.now) == (600, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B"])
@pytest.mark.parametrize(("kernels", "again"), [("plain", True), ("fused", True), ("plain", False)])
def test_the_estimate_of_a_dry_run_covers_what_a_pass_holds(name: str, kernels: str, again: bool) -> None:
    """One process: weights, copies, activations, logits, gradients. More than twice of it would be no estimate."""
    estimate, held = estimated_and_held(
        name, 1, 1, f"learner.activation_checkpointing={str(again).lower()}", f"learner.kernels={kernels}"
    )
    assert 0.5 * estimate < held <= estimate


@pytest.mark.slow
@pytest.mark.parametrize("name", ["Qwen3-0.6B", "Qwen3-1.7B", "Qwen3-4B"])
@pytest.mark.parametrize(("ranks", "copies"), [(2, 1), (4, 2)], ids=["divided", "in copies"])
def test_the_estimate_of_a_dry_run_covers_what_a_rank_of_several_holds(
    name: str, ranks: int, copies: int
) -> None:
    """FSDP2 on tensors without contents, in a group whose other members are not there."""
    estimate, held = estimated_and_held(name, ranks, copies, "learner.kernels=plain")
    assert 0.5 * estimate < held <= estimate


def estimated_and_held(name: str, ranks: int, copies: int, *settings: str) -> tuple[float, int]:
    config = resolve(
        "paper/alfworld-0.6b",
        (
            f"models.student=Qwen/{name}",
            f"runtime.learners={ranks}",
            f"runtime.learner_copies={copies}",
            f"learner.token_budget={WORK.tokens}",
            *settings,
        ),
    )
    (learner,) = (one for one in footprints(config) if one.part == "learner rank")
    estimate = learner.total - learner.bytes_of["optimizer"]
    return estimate, peak(NAMED[name], config.learner.model_copy(update={"device": "cpu"}), WORK, ranks, copies)
