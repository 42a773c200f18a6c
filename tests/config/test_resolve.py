"""How a recipe, what it extends and the command line become one configuration."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from actfirst.config.config import Config
from actfirst.config.load import differences, dump_toml, parse_overrides, parse_value, resolve
from actfirst.config.recipe_files import recipe_description, recipe_names
from actfirst.config.sections import ModelsSection
from actfirst.environments.alfworld.section import AlfworldSection
from actfirst.environments.pocket.section import PocketSection
from actfirst.errors import ConfigError

RUNNABLE = [name for name in recipe_names() if not recipe_description(name).startswith("Base:")]


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", recipe_names())
def test_every_packaged_recipe_begins_with_a_line_that_describes_it(name: str) -> None:
    assert len(recipe_description(name)) > 20


@pytest.mark.parametrize("name", RUNNABLE)
def test_every_packaged_recipe_resolves_and_survives_being_saved(name: str, tmp_path: Path) -> None:
    config = resolve(name)
    saved = write(tmp_path, "config.toml", dump_toml(config))
    assert resolve(saved) == config


@pytest.mark.parametrize("name", sorted(set(recipe_names()) - set(RUNNABLE)))
def test_a_base_recipe_lacks_something_on_purpose(name: str) -> None:
    with pytest.raises(ConfigError, match="must be given"):
        resolve(name)


def test_the_catalogue_holds_small_recipes_and_students_and_teachers_of_three_benchmarks() -> None:
    students = {
        f"paper/{bench}-{size}"
        for bench in ("alfworld", "webshop", "scienceworld")
        for size in ("0.6b", "1.7b", "4b")
    }
    teachers = {f"paper/teacher-{bench}-gigpo" for bench in ("alfworld", "webshop", "scienceworld")}
    teachers |= {"paper/teacher-alfworld-sft", "paper/teacher-webshop-sft"}
    small = {
        "pocket",
        "pocket-gigpo",
        "pocket-growing",
        "pocket-growing-student",
        "pocket-growing-teacher",
        "pocket-prepare",
        "alfworld-qwen",
        "alfworld-small",
        "pocket-few",
        "webshop-sample",
        "scienceworld-small",
    }
    for bench in ("alfworld", "webshop", "scienceworld"):
        small |= {f"{bench}-mini{stage}" for stage in ("", "-base", "-student", "-teacher")}
    assert set(RUNNABLE) == small | students | teachers


def test_an_heir_changes_what_it_names_and_inherits_the_rest(tmp_path: Path) -> None:
    mine = write(tmp_path, "mine.toml", 'extends = "pocket"\n[rollout.generation]\nfast_limit = 7\n')
    config, parent = resolve(mine), resolve("pocket")
    assert config.rollout.generation.fast_limit == 7
    assert differences(config, parent) == ["rollout.generation.fast_limit"]


def test_lists_are_replaced_not_joined(tmp_path: Path) -> None:
    mine = write(tmp_path, "mine.toml", 'extends = "pocket"\n[evaluation]\nsplits = ["train"]\n')
    assert resolve(mine).evaluation.splits == ("train",)


def test_a_parent_path_is_relative_to_the_file_that_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, "parents/base.toml", 'extends = "pocket"\n[run]\nupdates = 5\nseed = 1\n')
    heir = write(tmp_path, "heirs/mine.toml", 'extends = "../parents/base.toml"\n[run]\nseed = 2\n')
    monkeypatch.chdir("/")
    run = resolve(heir).run
    assert (run.updates, run.seed) == (5, 2)


def test_the_command_line_wins_over_the_recipe() -> None:
    config = resolve("pocket", ["learner.learning_rate=1e-5", "rollout.method=vanilla"])
    assert config.learner.learning_rate == 1e-5
    assert config.rollout.method == "vanilla"
    assert resolve("pocket", ["run.seed=1", "run.seed=2"]).run.seed == 2


def test_another_environment_takes_no_settings_of_the_old_one() -> None:
    config = resolve("paper/alfworld-1.7b", ["environment.name=pocket", "environment.turn_limit=9"])
    assert config.environment == PocketSection(turn_limit=9)


def test_the_same_environment_keeps_its_settings() -> None:
    config = resolve("paper/alfworld-1.7b", ["environment.name=alfworld", "environment.turn_limit=9"])
    assert config.environment == AlfworldSection(folder="data/alfworld", turn_limit=9)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("3e-4", 3e-4),
        ("true", True),
        ("True", "True"),
        ("pocket", "pocket"),
        ("Qwen/Qwen3-1.7B", "Qwen/Qwen3-1.7B"),
        ("2024-05-01", "2024-05-01"),
        ('"quoted"', "quoted"),
        ('["seen", "unseen"]', ["seen", "unseen"]),
        ("a = b", "a = b"),
        ("1\nb = 2", "1\nb = 2"),
        ("", ""),
    ],
)
def test_a_value_on_the_command_line_is_toml_or_else_a_word(text: str, value: object) -> None:
    assert parse_value(text) == value


def test_a_value_may_hold_an_equals_sign() -> None:
    layer, mistakes = parse_overrides(["models.student=folder=with=signs"])
    assert mistakes == []
    assert layer.values == {"models": {"student": "folder=with=signs"}}


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"])), st.floats(min_value=1e-300, max_value=1e300))
def test_any_text_and_any_number_survive_being_saved(text: str, rate: float) -> None:
    import tomllib

    base = resolve("pocket")
    config = base.model_copy(
        update={
            "models": ModelsSection(student=text, teacher="t"),
            "learner": base.learner.model_copy(update={"learning_rate": rate}),
        }
    )
    saved = tomllib.loads(dump_toml(config))
    assert saved["models"]["student"] == text
    assert saved["learner"]["learning_rate"] == rate


def test_the_saved_form_says_what_the_keys_mean() -> None:
    assert "updates = 60  # optimiser updates in all" in dump_toml(resolve("pocket", ["run.updates=60"]))


def test_a_configuration_never_changes() -> None:
    config: Config = resolve("pocket")
    with pytest.raises(Exception, match="frozen"):
        config.run.seed = 3  # type: ignore[misc]


class TestRefusedFiles:
    def test_a_circle(self, tmp_path: Path) -> None:
        one = write(tmp_path, "one.toml", 'extends = "sub/../two.toml"\n')
        write(tmp_path, "two.toml", 'extends = "one.toml"\n')
        with pytest.raises(ConfigError, match=r"circle: .*one\.toml -> .*two\.toml -> .*one\.toml"):
            resolve(one)

    def test_a_recipe_that_extends_itself(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="circle"):
            resolve(write(tmp_path, "one.toml", 'extends = "one.toml"\n'))

    def test_a_missing_parent_file_is_named_with_its_heir(self, tmp_path: Path) -> None:
        heir = write(tmp_path, "mine.toml", 'extends = "gone.toml"\n')
        with pytest.raises(ConfigError, match=r"gone\.toml does not exist \(extended by .*mine\.toml\)"):
            resolve(heir)

    def test_a_missing_parent_recipe_is_named_with_its_heir_and_what_is_close(self, tmp_path: Path) -> None:
        heir = write(tmp_path, "mine.toml", 'extends = "poket"\n')
        with pytest.raises(ConfigError, match=r"no recipe 'poket'; did you mean pocket\b.*mine\.toml"):
            resolve(heir)

    def test_an_unknown_recipe(self) -> None:
        with pytest.raises(ConfigError, match=r"did you mean paper/alfworld-1\.7b"):
            resolve("paper/alfworld-1.7")

    def test_a_file_named_without_its_ending(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        write(tmp_path, "mine.toml", 'extends = "pocket"\n')
        monkeypatch.chdir(tmp_path)
        with pytest.raises(ConfigError, match=r"say 'mine\.toml'"):
            resolve("mine")

    def test_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="does not exist"):
            resolve(tmp_path / "gone.toml")

    def test_two_parents(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match="one recipe name or one relative path"):
            resolve(write(tmp_path, "mine.toml", 'extends = ["pocket", "paper/base"]\n'))

    def test_a_file_that_is_not_toml_with_the_line(self, tmp_path: Path) -> None:
        with pytest.raises(ConfigError, match=r"mine\.toml is not valid TOML: .*line 2"):
            resolve(write(tmp_path, "mine.toml", "[run]\nseed == 3\n"))

    def test_a_file_that_is_not_text(self, tmp_path: Path) -> None:
        path = tmp_path / "mine.toml"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(ConfigError, match="cannot be read"):
            resolve(path)


def test_a_recipe_whose_name_is_too_long_for_a_file_is_one_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match="there is no recipe"):
        resolve("p" * 5000)
