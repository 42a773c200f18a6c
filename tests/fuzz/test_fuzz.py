"""Bad inputs for everything that reads what others wrote. The crash budget is zero: whatever an input is, what comes
out is a value or an error of ours.

    make fuzz                        1,000,000 inputs, and how many each reader was given
    make fuzz FUZZ_INPUTS=20000 FUZZ_SEED=7
"""

from __future__ import annotations

import os
import random
from itertools import islice
from pathlib import Path

import pytest

from actfirst.errors import ActfirstError
from actfirst.reading import Unreadable
from tests.fuzz.mutate import mutations
from tests.fuzz.targets import Target, targets

TARGETS = {target.name: target for target in targets()}
INPUTS = int(os.environ.get("FUZZ_INPUTS", "1000000"))
SEED = int(os.environ.get("FUZZ_SEED", "0"))


def attack(target: Target, inputs: int, seed: int, folder: Path) -> dict[str, int]:
    """Counts of inputs that were read and that were refused."""
    counts = {"read": 0, "refused": 0}
    for data in islice(mutations(target.seeds, random.Random(f"{target.name} {seed}")), inputs):
        try:
            target.call(data, folder)
            counts["read"] += 1
        except (ActfirstError, Unreadable) as error:
            str(error).encode()  # a message that can be written
            counts["refused"] += 1
        except BaseException as error:
            shown = data if len(data) < 3000 else data[:3000] + b"..."
            raise AssertionError(
                f"{target.name}: {type(error).__name__}: {error}\nof the input {shown!r}"
            ) from error
    return counts


@pytest.mark.parametrize("name", TARGETS)
def test_good_inputs_are_read(name: str, tmp_path: Path) -> None:
    """So that fuzzing begins behind the first check."""
    refused = []
    for seed in TARGETS[name].seeds:
        try:
            TARGETS[name].call(seed, tmp_path)
        except (ActfirstError, Unreadable) as error:
            refused.append(str(error))
    allowed = 1 if name == "manifest" else 0  # of files that are not there
    assert len(refused) <= allowed, refused


@pytest.mark.parametrize("name", TARGETS)
def test_a_few_bad_inputs(name: str, tmp_path: Path) -> None:
    target = TARGETS[name]
    assert sum(attack(target, 8 + target.share, 1, tmp_path).values()) == 8 + target.share


@pytest.mark.slow
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", TARGETS)
def test_many_bad_inputs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = TARGETS[name]
    counts = attack(target, INPUTS * target.share // 1000, SEED, tmp_path)
    with capsys.disabled():
        print(
            f"\n{name}: {sum(counts.values()):,} inputs, {counts['read']:,} read, {counts['refused']:,} refused",
            end="",
        )
