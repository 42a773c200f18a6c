"""`actfirst pocket measure` on the models that ship with the package."""

import pytest

from tests.cli.runner import run


def test_measure_shows_three_ways_of_acting_and_first_tries(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "pocket", "measure", "pocket:student", "--tasks", "2", "--seeds", "1")
    assert done.code == 0, done.err
    lines = (done.out + done.err).splitlines()
    ways = [line.split()[1] for line in lines if line.startswith("pocket:student")]
    assert ways[:3] == ["think", "direct", "guided"]
    contexts, guided, alone = next(
        line for line in reversed(lines) if line.startswith("pocket:student")
    ).split()[1:]
    assert int(contexts) > 0
    assert 0.0 <= float(alone) <= 100.0
    assert 0.0 <= float(guided) <= 100.0


def test_measure_names_a_folder_that_is_no_checkpoint(capsys: pytest.CaptureFixture[str]) -> None:
    done = run(capsys, "pocket", "measure", "nowhere")
    assert done.code == 2
    assert "nowhere" in done.err
