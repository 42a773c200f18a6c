"""A wrong key, type or combination is refused by name, with what would be right and where it was said."""

from __future__ import annotations

from pathlib import Path

import pytest

from actfirst.config.load import differences, resolve
from actfirst.errors import ConfigError

# One sequence has at most 640 + 128 = 768 tokens.
LIMITS = [
    "rollout.generation.prompt_limit=640",
    "rollout.generation.first_stage=96",
    "rollout.generation.response_limit=128",
]


def refusal(*overrides: str, recipe: str | Path = "pocket") -> str:
    with pytest.raises(ConfigError) as caught:
        resolve(recipe, overrides)
    return str(caught.value)


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("learner.lernin_rate=3e-4", "learner.lernin_rate = 0.0003 (command line): there is no such key; "
                                     "did you mean learner.learning_rate?"),
        ("learning_rate=3e-4", "did you mean learner.learning_rate or sft.learning_rate?"),
        ("learner.lr=1", "did you mean learner.learning_rate?"),
        ("lr=1", "did you mean learner.learning_rate or sft.learning_rate?"),
        ("learner.size=1", "did you mean learner.batch_size?"),
        ("rolout.overlap=true", "rolout = {\"overlap\": true} (command line): there is no such key; "
                                "did you mean rollout?"),
        ("environment.sed=4", "did you mean environment.seed?"),
        ("environment.engine=native", '"alfworld" has it, this environment does not; keys here are environment.name'),
        ("rollout.qqqqqq=4", "keys here are rollout.tasks_per_batch, rollout.method"),
        ("learner.batch_size=many", 'batch_size = "many" (command line): must be a whole number above 0'),
        ("learner.batch_size=0", "must be a whole number above 0"),
        ("learner.batch_size=8.0", "must be a whole number above 0"),
        ("learner.batch_size=true", "must be a whole number above 0"),
        ("learner.learning_rate=inf", "must be a finite number above 0"),
        ("learner.learning_rate=nan", "must be a finite number above 0"),
        ("rollout.generation.top_p=1.5", "must be a finite number above 0.0 and of at most 1.0"),
        ("rollout.overlap=yes", 'rollout.overlap = "yes" (command line): must be true or false'),
        ("models.student=3", "models.student = 3 (command line): must be a string"),
        ("learner.precision=fp8", 'must be one of "float32", "bfloat16"'),
        ("learner.betas=[0.9]", "learner.betas[1] (command line): is missing; the list must be a list of 2"),
        ("learner.betas=[0.9, 1.0]", "betas[1] = 1.0 (command line): must be a finite number of at least 0.0 "
                                     "and below 1.0"),
        ("evaluation.splits=seen", "must be a list, [...], in which each item is a string"),
        ("evaluation.seeds=[]", "must be a list of at least 1, [...], in which each item is a whole number"),
        ('tracking.sinks=["tensorbord"]', 'tracking.sinks[0] = "tensorbord" (command line): must be one of '
                                          '"tensorboard", "wandb", "trackio"'),
        ("runtime.learner_copies=2", "learners = 1 cannot be divided into learner_copies = 2"),
        ("checkpoint.export=true", "export = true writes nothing unless keep_at says"),
        ("run=3", "run = 3 (command line): must be a table with seed, updates"),
        ("learner.learning_rate.x=2", 'learning_rate = {"x": 2} (command line): must be a finite number'),
        ("environment=3", "environment = 3 (command line): must be a table whose name is one of"),
        ("environment.name=alfwrld", 'environment.name = "alfwrld" (command line): must be one of "alfworld", '
                                     '"gymnasium", "openenv", "pocket", "scienceworld", "verifiers", "webshop"'),
        ("references.source=oracel", 'references.source = "oracel" (command line): must be one of "best", '
                                     '"rollouts", "walkthrough", "solver", "expert", "gold", "oracle"'),
        ("environment.name=alfworld", "environment.folder: must be given: a string (folder that holds"),
        ("rollout.method=actfrist", 'rollout.method = "actfrist" (command line): did you mean actfirst? '
                                    'must be one of "vanilla", "tcod-f2b"'),
        ("overlap", "overlap (command line): an override is written key=value"),
        ("rollout..overlap=true", "an override is written key=value"),
        ("=3", "an override is written key=value"),
        ("evaluation.splits=[seen]", "is not a TOML value"),
        ("extends=paper/base", "there is no such key"),
    ],
)  # fmt: skip
def test_a_mistake_names_the_key_what_was_given_and_what_would_be_right(override: str, expected: str) -> None:
    assert expected in refusal(override)


@pytest.mark.parametrize(
    ("overrides", "key", "reason"),
    [
        ([*LIMITS, "rollout.generation.first_stage=200"], "rollout.generation", "first_stage = 200 exceeds"),
        (["environment.objects=[9, 2]"], "environment", "objects = [9, 2] is not a range"),
        (["evaluation.splits=[]"], "evaluation.splits = []", "name at least one split"),
        (["evaluation.seeds=[1, 1]"], "evaluation.seeds", "twice"),
        (['evaluation.splits=["seen", "seen"]'], "evaluation.splits", "twice"),
        ([*LIMITS, "learner.token_budget=767"], "learner.token_budget = 767", "must be at least 768"),
        (["learner.max_version_lag=0", "rollout.overlap=true"], "learner.max_version_lag = 0", "at least 1"),
    ],
)
def test_settings_that_cannot_go_together_are_refused(overrides: list[str], key: str, reason: str) -> None:
    message = refusal(*overrides)
    assert key in message
    assert reason in message


@pytest.mark.parametrize(
    "overrides",
    [
        [*LIMITS, "learner.token_budget=768"],
        ["learner.max_version_lag=0", "rollout.overlap=false"],
        [*LIMITS, "rollout.generation.first_stage=128"],
        [
            *(f"evaluation.{key}=false" for key in ("at_start", "at_end", "teacher")),
            "evaluation.every=0",
            "evaluation.splits=[]",
        ],
        ["learner.learning_rate=1"],  # a whole number is a number
    ],
)
def test_settings_at_the_edge_are_accepted(overrides: list[str]) -> None:
    assert differences(resolve("pocket"), resolve("pocket", overrides))


def test_all_mistakes_are_reported_at_once() -> None:
    message = refusal(
        "overlap", "rollout.method=best", "learner.batch_size=0", "run.sed=1", "evaluation.splits=[x"
    )
    assert message.startswith("5 mistakes in the configuration of pocket")
    for key in ("overlap", "rollout.method", "learner.batch_size", "run.sed", "evaluation.splits"):
        assert f"  - {key}" in message


def test_all_impossible_combinations_are_reported_at_once() -> None:
    message = refusal("learner.token_budget=1", "evaluation.splits=[]", "evaluation.seeds=[1, 1]")
    assert message.startswith("3 mistakes")


def test_each_mistake_names_the_file_it_came_from(tmp_path: Path) -> None:
    parent = tmp_path / "parent.toml"
    parent.write_text('extends = "pocket"\n[learner]\nbatch_size = -1\nclip = 0\n')
    heir = tmp_path / "heir.toml"
    heir.write_text('extends = "parent.toml"\n[learner]\nclip = -2\n[rollout]\nmethod = "none"\n')
    message = refusal("run.updates=0", recipe=heir)
    assert f"learner.batch_size = -1 ({parent})" in message
    assert f"learner.clip = -2 ({heir})" in message
    assert f'rollout.method = "none" ({heir})' in message
    assert "run.updates = 0 (command line)" in message


def test_a_combination_names_the_sources_of_what_disagrees(tmp_path: Path) -> None:
    mine = tmp_path / "mine.toml"
    mine.write_text('extends = "pocket"\n[rollout.generation]\nresponse_limit = 8\n')
    assert f"rollout.generation (recipe pocket, {mine})" in refusal(recipe=mine)


def test_what_an_environment_needs_is_explained() -> None:
    assert "folder" in refusal("environment.name=alfworld")


def test_long_values_are_cut() -> None:
    assert len(refusal(f"learner.precision={'x' * 500}")) < 400
