"""WebShop as a world: the contract, the paper's split, observations as prompts and checks expect them."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from pathlib import Path

import pytest

from actfirst.config.load import resolve
from actfirst.environments.base import Environment, World
from actfirst.environments.registry import hosting, open_world
from actfirst.environments.webshop import world as webshop_world
from actfirst.environments.webshop.catalogue import Catalogue, find_files, memory_catalogue
from actfirst.environments.webshop.nouns import has_spacy, simple_nouns
from actfirst.environments.webshop.oracle import oracle_candidates
from actfirst.environments.webshop.section import WebshopSection as Section
from actfirst.environments.webshop.shelf import memory_shelf
from actfirst.environments.webshop.world import GoalChoice, WebshopWorld, choose_nouns, open_webshop
from actfirst.errors import EnvironmentFailure, TaskError
from actfirst.records import Observation, Task
from tests.environments.contract import INVALID, EnvironmentContract
from tests.environments.webshop.published import ABSENT, FOLDER, present, published
from tests.environments.webshop.shop import goal, product, words
from tests.support.kinds import RULES


class ShopContract(EnvironmentContract):
    """The contract, for a shop: its first page offers a form, and a button that does nothing in the original too."""

    unlisted = "search[red shoes]"

    def walk(self, environment: Environment, task: Task) -> list[Observation]:
        rng = random.Random(task.id)
        instruction, observation = environment.reset(task)
        seen = [observation]
        while len(seen) <= self.turns and not observation.done:
            action = f"search[{instruction}]" if observation.templates else rng.choice(observation.admissible)
            observation = environment.step(action)
            seen.append(observation)
        return seen

    def test_admissible_actions_are_accepted(self, environment: Environment, tasks: list[Task]) -> None:
        for task in tasks:
            instruction, home = environment.reset(task)
            assert (home.admissible, home.templates) == (("click[search]",), ("search[<your query>]",))
            results = environment.step(f"search[{instruction}]")
            product = results.admissible[2]  # after the two buttons of a first page of results
            for before in ((), (product,)):
                # By state: an option whose value has quotes is chosen, but not marked.
                for action in self.at(environment, task, instruction, before).admissible:
                    refused = self.at(environment, task, instruction, before).state
                    assert environment.step(action).state != refused, action

    def at(
        self, environment: Environment, task: Task, instruction: str, actions: tuple[str, ...]
    ) -> Observation:
        environment.reset(task)
        observation = environment.step(f"search[{instruction}]")
        for action in actions:
            observation = environment.step(action)
        return observation

    def test_two_environments_do_not_disturb_each_other(self, world: World, tasks: list[Task]) -> None:
        alone = self.walk(world.open(), tasks[0])
        first, second = world.open(), world.open()
        second.reset(tasks[0])
        rng = random.Random(tasks[0].id)
        instruction, observation = first.reset(tasks[0])
        for expected in alone[1:]:
            second.step("search[something else]")
            action = f"search[{instruction}]" if observation.templates else rng.choice(observation.admissible)
            observation = first.step(action)
            assert observation == expected


class TestSampleContract(ShopContract):
    @pytest.fixture
    def world(self) -> World:
        return SAMPLE


class TestContractWithMessages(ShopContract):
    @pytest.fixture
    def world(self) -> World:
        return open_webshop(nouns="simple", after_invalid="message")


class TestAfterAnInvalidAction:
    """What the paper leaves open; its recipes follow TCOD, where a message takes the place of the page."""

    @pytest.fixture
    def explaining(self) -> Environment:
        environment = open_webshop(nouns="simple", after_invalid="message").open()
        environment.reset(SAMPLE.tasks("train")[0])
        return environment

    def test_the_papers_recipes_show_a_message(self) -> None:
        assert resolve("paper/webshop-0.6b").environment.model_dump()["after_invalid"] == "message"

    @pytest.mark.parametrize("action", [INVALID, "search[]", "click", "buy[it]", ""])
    def test_what_is_not_an_action_is_answered_with_the_two_forms(
        self, explaining: Environment, action: str
    ) -> None:
        assert "search[words to search for] or click[button]" in explaining.step(action).text

    def test_an_unknown_button_is_answered_with_those_of_the_page(self, explaining: Environment) -> None:
        page = explaining.step("search[shoes]")
        answer = explaining.step("click[buy now]")
        assert "no such button" in answer.text
        assert all(action[len("click[") : -1] in answer.text for action in page.admissible)
        assert replace(answer, text=page.text) == page

    def test_a_search_needs_a_search_bar(self, explaining: Environment) -> None:
        page = explaining.step("search[shoes]")
        answer = explaining.step("search[hats]")
        assert "click[back to search]" in answer.text
        assert replace(answer, text=page.text) == page

    def test_the_original_shows_the_same_page_and_searches_everywhere(self) -> None:
        environment = SAMPLE.open()
        environment.reset(SAMPLE.tasks("train")[0])
        page = environment.step("search[shoes]")
        assert environment.step("click[buy now]") == page
        assert environment.step("search[hats]") != page


@pytest.mark.skipif(not present(), reason=ABSENT)
class TestPublishedContract(ShopContract):
    sample = 2

    @pytest.fixture
    def world(self) -> World:
        return published()


SAMPLE = open_webshop(nouns="simple")


class TestTasks:
    def test_the_papers_split(self) -> None:
        assert SAMPLE.splits() == ("train", "eval")
        assert [task.id for task in SAMPLE.tasks("train")] == [
            f"webshop/train/{number}" for number in range(4096)
        ]
        assert [task.id for task in SAMPLE.tasks("eval")] == [
            f"webshop/eval/{number}" for number in range(4096, 4196)
        ]
        assert SAMPLE.turn_limit == 15

    @pytest.mark.parametrize(
        "name", ["webshop/train/4096", "webshop/eval/0", "webshop/train/-1", "shop/train/1", "1"]
    )
    def test_tasks_of_no_split(self, name: str) -> None:
        with pytest.raises(TaskError):
            SAMPLE.find(Task(name, "train", "synthetic"))

    def test_too_few_goals_are_refused_with_a_remedy(self) -> None:
        with pytest.raises(EnvironmentFailure, match=r"35 human goals.*need 4,196.*environment\.goals"):
            open_webshop(goals="human", nouns="simple")

    def test_peoples_goals_are_taken_where_there_are_enough(self) -> None:
        world = open_webshop(nouns="simple", splits={"train": range(20), "eval": range(20, 30)})
        assert world.kind == "human"
        assert world.fingerprint != SAMPLE.fingerprint


class TestObservations:
    def test_the_instruction_is_the_goals(self) -> None:
        instruction, first = SAMPLE.open().reset(SAMPLE.tasks("train")[0])
        assert instruction == SAMPLE.goals[0].instruction
        assert first.text == f"WebShop\nInstruction: \n{instruction}\n[button] Search [button_]\n"

    def test_the_paper_allows_a_search_on_the_home_page_only_the_shop_everywhere(self) -> None:
        environment = SAMPLE.open()
        _, home = environment.reset(SAMPLE.tasks("train")[0])
        rules = RULES["webshop"]
        assert rules.valid("search[red shirt]", home)
        results = environment.step("search[red shirt]")
        assert results.templates == ()
        assert not rules.valid("search[blue shirt]", results)
        assert environment.step("search[blue shirt]").state != results.state

    def test_the_end_is_final(self) -> None:
        environment = SAMPLE.open()
        task = SAMPLE.tasks("train")[0]
        environment.reset(task)
        for action in next(oracle_candidates(SAMPLE, task)):
            last = environment.step(action)
        assert (last.done, last.success, last.score, last.admissible) == (True, True, 100.0, ())
        assert environment.step("search[red shirt]") == environment.step(INVALID) == last
        assert not environment.reset(task)[1].done

    def test_a_partial_purchase_is_no_success(self) -> None:
        environment = SAMPLE.open()
        task = SAMPLE.tasks("train")[0]
        environment.reset(task)
        search, product, *_ = next(oracle_candidates(SAMPLE, task))
        for action in (search, product, "click[buy now]"):
            last = environment.step(action)
        assert last.done
        assert not last.success
        assert 0 < last.score < 100

    def test_no_step_before_reset_or_after_close(self) -> None:
        environment = SAMPLE.open()
        with pytest.raises(EnvironmentFailure):
            environment.step("search[x]")
        environment.reset(SAMPLE.tasks("train")[0])
        environment.close()
        with pytest.raises(EnvironmentFailure):
            environment.step("search[x]")


def test_everything_can_be_given() -> None:
    """Products, prices, search, goals and nouns of somebody else: a walk of the original can be replayed on them."""
    catalogue = Catalogue(
        shelf=memory_shelf([product()]),
        price={"B1": 99.0}.__getitem__,
        search=lambda query: ["B1"],
        goals=lambda kind: [goal()],
        fingerprint="mine",
    )
    world = WebshopWorld(catalogue, "human", words, "words", splits={"train": range(1)})
    environment = world.open()
    environment.reset(world.tasks("train")[0])
    for action in ("search[x]", "click[b1]", "click[red]", "click[big]", "click[buy now]"):
        last = environment.step(action)
    assert last.score == 75.0  # all but the price
    assert re.fullmatch(r"webshop-1-mine-human-[0-9a-f]{16}-words", world.fingerprint)


class TestConfiguration:
    def test_the_default_is_the_catalogue_in_the_package(self) -> None:
        section = Section(nouns="simple")
        assert open_world(section).fingerprint == SAMPLE.fingerprint
        assert not hosting(section).processes

    def test_other_ids(self) -> None:
        world = open_world(Section(nouns="simple", train=(0, 10), eval=(10, 12), goals="synthetic"))
        assert [len(world.tasks(split)) for split in ("train", "eval")] == [10, 2]

    @pytest.mark.parametrize("ids", [{"train": (5, 5)}, {"train": (0, 11), "eval": (10, 12)}])
    def test_ids_that_cannot_be(self, ids: dict[str, tuple[int, int]]) -> None:
        with pytest.raises(ValueError, match="train"):
            Section.model_validate(ids)

    def test_a_folder_without_a_catalogue_says_what_is_missing(self, tmp_path: Path) -> None:
        with pytest.raises(EnvironmentFailure, match=r"items_shuffle\.json and items_ins_v2\.json"):
            open_world(Section(nouns="simple", folder=str(tmp_path)))

    def test_of_several_sets_the_full_one_counts(self, tmp_path: Path) -> None:
        for name in ("items_shuffle_1000", "items_ins_v2_1000", "items_shuffle", "items_ins_v2"):
            (tmp_path / f"{name}.json").write_text("[]")
        assert find_files(tmp_path).items.name == "items_shuffle.json"
        (tmp_path / "items_ins_v2.json").unlink()
        assert find_files(tmp_path).items.name == "items_shuffle_1000.json"

    @pytest.mark.skipif(not present(), reason=ABSENT)
    def test_fewer_products(self) -> None:
        world = open_webshop(str(FOLDER), products=50, nouns="simple", splits={"train": range(20)})
        assert len(world.shop.shelf) == 50


class TestNounTagger:
    def test_the_simple_one_is_taken_where_a_recipe_says_so(self) -> None:
        assert choose_nouns("simple") == (simple_nouns, "simple")
        assert resolve("webshop-sample").environment.model_dump()["nouns"] == "simple"

    @pytest.mark.parametrize("size", ["0.6b", "1.7b", "4b"])
    def test_the_papers_recipes_ask_for_spacy_and_say_how_to_get_it(
        self, size: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Paper, appendix "Benchmarks": WebShop's own reward, whose nouns are those of spaCy's small model."""
        monkeypatch.setattr(webshop_world, "has_spacy", lambda: False)
        with pytest.raises(
            EnvironmentFailure, match=r"pip install 'actfirst\[spacy\]'.*download en_core_web_sm"
        ):
            open_world(resolve(f"paper/webshop-{size}").environment)

    def test_the_tagger_is_part_of_the_fingerprint(self) -> None:
        assert SAMPLE.fingerprint.endswith("-simple")

    @pytest.mark.skipif(not has_spacy(), reason="spaCy or its English model is not installed")
    def test_spacy_finds_nouns(self) -> None:
        nouns, _ = choose_nouns("spacy")
        assert "jacket" in nouns("A warm jacket for the winter")


def test_the_fingerprint_changes_with_the_products() -> None:
    one, other = (memory_catalogue([product(title=title)], {}).fingerprint for title in ("Cup", "Mug"))
    assert one != other
    assert one == memory_catalogue([product(title="Cup")], {}).fingerprint


class TestWhatPeopleWrote:
    """Goals of people are no part of the products, but a goal's id must mean the same goal."""

    def world(self, kind: GoalChoice, *asked: str, attributes: tuple[str, ...] = ("red",)) -> WebshopWorld:
        fields = {"instruction_attributes": attributes, "instruction_options": []}
        human = {"B1": [{"instruction": text, **fields} for text in asked], "B2": [{"instruction": "unsold"}]}
        cup = product(instruction="Find me cups")
        return WebshopWorld(memory_catalogue([cup], human), kind, splits={"train": range(1)})

    def test_the_fingerprint_covers_it_if_it_is_played(self) -> None:
        fingerprint = self.world("human", "a cup", "a mug").fingerprint
        assert fingerprint == self.world("human", "a cup", "a mug").fingerprint
        assert fingerprint != self.world("human", "a cup", "a pot").fingerprint
        assert fingerprint != self.world("human", "a mug", "a cup").fingerprint
        assert fingerprint != self.world("human", "a cup", "a mug", attributes=("blue",)).fingerprint

    def test_and_not_if_goals_are_made_from_options(self) -> None:
        assert self.world("synthetic", "a cup").fingerprint == self.world("synthetic", "a mug").fingerprint
