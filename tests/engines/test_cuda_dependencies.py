"""What pip resolves for a machine with CUDA (tests/tools/cuda_dependencies.py) is what pyproject.toml asks for."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.tools.cuda_dependencies import pins, snapshot


@pytest.mark.parametrize("pin", pins())
def test_a_pin_is_met_by_what_was_resolved(pin: str) -> None:
    """A change of a pin asks for a new snapshot."""
    wanted = Requirement(pin)
    assert wanted.specifier.contains(snapshot()[canonicalize_name(wanted.name)])


def test_it_is_the_build_for_gpus() -> None:
    found = snapshot()
    assert {"nvidia-nccl-cu13", "triton", "flashinfer-python"} <= found.keys()
    assert not [name for name, version in found.items() if "cpu" in version]
