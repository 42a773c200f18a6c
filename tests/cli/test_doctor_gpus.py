"""`actfirst doctor RECIPE` compares a recipe's GPUs with the machine's. The machines are made up."""

from __future__ import annotations

from dataclasses import replace

from actfirst.cli.doctor.gpus import Machine, gpu_findings
from actfirst.config.load import resolve
from actfirst.environments.findings import Finding, State

A100S = Machine((80e9,) * 8, "nvidia-smi", "13.0", "2.28.3", 500e9)


def found(machine: Machine, *overrides: str, recipe: str = "paper/alfworld-4b") -> dict[str, list[Finding]]:
    findings: dict[str, list[Finding]] = {}
    for finding in gpu_findings(resolve(recipe, list(overrides)), machine):
        findings.setdefault(finding.name, []).append(finding)
    return findings


def states(findings: dict[str, list[Finding]]) -> dict[str, set[State]]:
    return {name: {finding.state for finding in some} for name, some in findings.items()}


def test_the_papers_machine_has_all_that_its_recipe_needs() -> None:
    ok = {State.OK}
    assert states(found(A100S)) == {"recipe GPUs": ok, "GPU memory": ok, "NCCL": ok, "shared memory": ok}


def test_a_recipe_without_gpus_needs_none() -> None:
    assert states(found(Machine(), recipe="pocket")) == {"recipe GPUs": {State.OK}}


def test_too_few_gpus_are_broken_and_the_reason_is_named() -> None:
    (few,) = found(replace(A100S, memory=(80e9,) * 4))["recipe GPUs"]
    assert (few.state, few.detail) == (State.BROKEN, "4 here, the recipe reserves 8")
    (no_build,) = found(Machine())["recipe GPUs"]
    assert "build of torch for CUDA" in no_build.remedy
    (no_driver,) = found(Machine(cuda="13.0"))["recipe GPUs"]
    assert "no driver" in no_driver.detail
    (old_driver,) = found(Machine(cuda="13.0", driver="nvidia-smi"))["recipe GPUs"]
    assert "torch cannot use it" in old_driver.detail


def test_smaller_gpus_are_too_small_for_the_learner_but_not_for_the_engines() -> None:
    memory = found(replace(A100S, memory=(40e9,) * 8))["GPU memory"]
    assert [(finding.detail.split(" (")[0], finding.state) for finding in memory] == [
        ("rollout engine", State.OK),
        ("teacher replica", State.OK),
        ("learner rank", State.BROKEN),
    ]
    assert "learner.token_budget" in memory[-1].remedy
    smallest = found(replace(A100S, memory=(16e9,) * 8))["GPU memory"]
    assert smallest[1].state is State.BROKEN  # 8B weights alone are 16.4 GB


def test_without_nccl_processes_on_gpus_cannot_talk() -> None:
    (nccl,) = found(replace(A100S, nccl=""))["NCCL"]
    assert nccl.state is State.BROKEN
    one = found(replace(A100S, nccl=""), "runtime.learners=1", "runtime.weight_sync=store")
    assert "NCCL" not in one


def test_a_containers_little_shared_memory_is_a_warning() -> None:
    (shared,) = found(replace(A100S, shared=64e6))["shared memory"]
    assert shared.state is State.WARN
    assert "38.6 GB" in shared.detail  # 1.2 x 4 engines x 2 bytes x 4.02e9


def test_a_cluster_elsewhere_is_not_judged_from_here() -> None:
    assert states(found(Machine(), "runtime.address=auto")) == {"recipe GPUs": {State.WARN}}
