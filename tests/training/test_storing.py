"""What a run stores for whoever looks at it later: full responses, per-token streams, evaluation episodes."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path

import pytest

from actfirst.errors import RunFolderError
from actfirst.records import ActionSource, Mode, Verdict
from actfirst.runs.episodes import EpisodeLine
from actfirst.runs.record import Record
from actfirst.runs.run import Run, open_run
from actfirst.runs.run_folder import RESPONSES, RunFolder
from actfirst.training.open import train
from actfirst.view.prompts import Prompts
from tests.support.tiny_run import tiny_config

SETTINGS = ("run.updates=3", "environment.turn_limit=6", "run.keep_alternatives=3")


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def run(models: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("stored") / "run"
    evaluating = ("evaluation.every=2", "evaluation.seeds=[42, 43]", "evaluation.teacher=true")
    train(tiny_config(models, *SETTINGS, *evaluating), folder)
    return open_run(folder)


def test_every_trained_response_of_a_small_run_is_stored_once(run: Run) -> None:
    trained = {(line.update, sample) for line in run.updates for sample in line.sample_ids}
    stored = [(line.update, line.sample) for line in run.responses()]
    assert len(stored) == len(trained) == 24
    assert set(stored) == trained


def test_the_streams_have_a_value_for_each_token_and_advantages_are_teacher_minus_student(run: Run) -> None:
    for line in run.responses():
        lengths = set(map(len, (line.token_texts, line.mask, line.student, line.teacher, line.advantages)))
        assert len(lengths) == 1
        for kept, student, teacher, advantage in zip(line.mask, line.student, line.teacher, line.advantages):
            assert student <= 0
            assert teacher <= 1e-4
            if kept:
                assert advantage == pytest.approx(teacher - student, abs=2e-4)
        assert set(line.mask) <= {0, 1}


def by_id(run: Run) -> dict[str, EpisodeLine]:
    return {line.id: line for line in run.episodes()}


def test_token_texts_joined_are_the_response_of_its_episode_and_the_prompt_is_that_of_its_turn(
    run: Run,
) -> None:
    episodes = by_id(run)
    compared = 0
    for line in run.responses():
        turns = episodes[line.episode].turns
        if line.turn <= len(turns):
            turn = turns[line.turn - 1]
            assert turn.response is not None
            assert turn.response.text == "".join(line.token_texts)
            assert turn.observation.strip() in line.prompt
            compared += 1
    assert compared


def test_the_teachers_alternatives_are_stored_likeliest_first(run: Run) -> None:
    for line in run.responses():
        assert len(line.alternatives) == len(line.token_texts)
        for kept, teacher, others in zip(line.mask, line.teacher, line.alternatives):
            assert len(others) == 3
            values = [value for _, value in others]
            assert values == sorted(values, reverse=True)
            assert sum(map(math.exp, values)) <= 1.001
            assert not kept or teacher <= values[0] + 2e-4


def test_the_exact_prompts_of_all_modes_can_be_rendered_again(run: Run) -> None:
    """Those of trained responses are stored as they were used; of the others a digest is."""
    trained = {(line.episode, line.turn): line.prompt for line in run.responses()}
    prompts, modes, compared = Prompts(run.folder), Counter[Mode](), 0
    for episode in run.episodes():
        used = sum(len(turn.requests) + (turn.response is not None) for turn in episode.turns)
        shown = prompts.of(json.dumps(episode.to_json()).encode(), evaluated=False)
        assert len(shown) == used
        for prompt in shown:
            assert prompt.exact
            modes[prompt.mode] += 1
            if prompt.mode is Mode.FULL and (episode.id, prompt.turn) in trained:
                assert prompt.text == trained[episode.id, prompt.turn]
                compared += 1
    assert set(modes) == set(Mode)
    assert compared
    for evaluated in run.evaluation_episodes():
        shown = prompts.of(json.dumps(evaluated.to_json()).encode(), evaluated=True)
        assert shown
        assert all(prompt.exact for prompt in shown)


def test_a_prompt_that_comes_out_otherwise_than_it_was_used_is_not_called_exact(run: Run) -> None:
    episode = next(one for one in run.episodes() if one.turns[0].requests)
    other = episode.model_copy(update={"instruction": episode.instruction + " now"})
    shown = Prompts(run.folder).of(json.dumps(other.to_json()).encode(), evaluated=False)
    assert not any(prompt.exact for prompt in shown)


def test_what_the_reference_could_do_is_stored_where_a_rollout_left_it(run: Run) -> None:
    left = (Verdict.DIVERGED, Verdict.INVALID_PROPOSAL)
    turns = [turn for episode in run.episodes() for turn in episode.turns]
    assert any(turn.verdict in left for turn in turns)
    for turn in turns:
        assert (turn.reference_admissible is not None) is (turn.verdict in left)
        assert turn.reference_admissible is None or turn.reference_next


def test_responses_beside_the_acting_are_on_their_turns_with_their_times(run: Run) -> None:
    turns = [(episode, turn) for episode in run.episodes() for turn in episode.turns]
    assert all(turn.source is not ActionSource.THINK for _, turn in turns)
    beside = [(episode, turn) for episode, turn in turns if turn.response is not None]
    assert len(beside) > 10
    for episode, turn in turns:
        assert turn.started is not None
        assert 0 <= turn.started <= episode.seconds
    for _, turn in beside:
        assert turn.response is not None
        assert turn.response.started is not None
        assert turn.response.ended is not None
        assert turn.started is not None
        assert turn.started <= turn.response.started + 1e-3 <= turn.response.ended + 2e-3


def test_a_turn_has_its_admissible_actions_and_where_it_was_guided_the_references_next_observation(
    run: Run,
) -> None:
    for episode in run.episodes():
        for turn in episode.turns:
            assert turn.admissible
            assert turn.valid == (turn.action in turn.admissible)
            asked = any(request.mode is Mode.INVERSE_DYNAMICS for request in turn.requests)
            assert bool(turn.reference_next) == asked


def test_the_episodes_of_every_evaluation_are_stored(run: Run) -> None:
    stored = Counter((line.who, line.update, line.seed) for line in run.evaluation_episodes())
    assert stored == {(who, 2, seed): 4 for who in ("student", "teacher") for seed in (42, 43)}
    for line in run.evaluation_episodes():
        assert all(turn.source is ActionSource.THINK and turn.response for turn in line.turns)


def test_of_a_large_run_a_fixed_draw_is_stored(models: Path, run: Run, tmp_path: Path) -> None:
    fewer = ("run.keep_responses=3", "run.keep_evaluations=2", "evaluation.at_end=true")
    for name in ("a", "b"):
        train(tiny_config(models, *SETTINGS, *fewer), tmp_path / name)
    a, b = open_run(tmp_path / "a"), open_run(tmp_path / "b")
    assert Counter(line.update for line in a.responses()) == {1: 3, 2: 3, 3: 3}
    assert [line.sample for line in a.responses()] == [line.sample for line in b.responses()]
    assert [line.task for line in a.evaluation_episodes()] == [line.task for line in b.evaluation_episodes()]
    assert len(list(a.evaluation_episodes())) == 2


def test_nothing_is_stored_where_nothing_is_to_be_kept(models: Path, tmp_path: Path) -> None:
    train(tiny_config(models, "run.updates=1", "run.keep_responses=0"), tmp_path / "run")
    assert list(open_run(tmp_path / "run").responses()) == []


class Line(Record):
    text: str


def test_each_update_has_an_equal_share_of_what_is_left_of_the_bytes(tmp_path: Path) -> None:
    lines = [Line(text="x" * 61)] * 5  # 100 bytes each in the file, with the checksum
    with RunFolder.create(tmp_path / "run", "") as folder:
        sizes = []
        for left in (4, 3, 2, 1):
            folder.append_share(RESPONSES, lines, 1000, left)
            sizes.append(folder.offsets()[RESPONSES])
    assert sizes == [200, 400, 700, 1000], "what one update leaves over, later ones may use"


def test_a_failure_to_store_is_told_and_not_swallowed(tmp_path: Path) -> None:
    with RunFolder.create(tmp_path / "run", "") as folder:
        (folder.path / RESPONSES).symlink_to("/dev/full")
        folder.later(lambda: folder.append_share(RESPONSES, [Line(text="x")], 100, 1))
        with pytest.raises(RunFolderError, match="No space left on device"):
            folder.offsets()
