"""ActFirst-OPD trains on each of the three real environments from its small recipe. Minutes.

The pocket models never saw these worlds, and as they ship their guesses hardly ever lead where the reference went. So
the student first learns by heart how the reference of one task begins: enough to follow it.
"""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path

import pytest
from transformers import AutoTokenizer

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.config.sections import LearnerSection
from actfirst.environments.base import World
from actfirst.environments.registry import kind_of, open_world
from actfirst.learning.checkpoint import save
from actfirst.learning.sft import Example, as_samples
from actfirst.learning.update import Learner
from actfirst.models.folder import resolve_model
from actfirst.policy.history import fit
from actfirst.policy.parsing import ACTION, END_ACTION
from actfirst.policy.render import read_templates
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Mode, Reference, Task, TurnContext
from actfirst.references.build.build import Plan, build_store
from actfirst.references.store import ReferenceStore
from actfirst.rollout.task_order import TaskOrder
from actfirst.runs.run_folder import read_episodes, read_metrics
from actfirst.training.open import train
from tests.environments import published

pytestmark = [pytest.mark.slow, pytest.mark.timeout(3600)]

LESSON = LearnerSection(learning_rate=3e-3, precision="float32")
GUIDED = 3
"""Tasks of the first batch that have a reference."""


@pytest.mark.skipif(not published.ARCHIVE.exists(), reason=published.ABSENT)
def test_alfworld(tmp_path: Path) -> None:
    games = published.unpacked()
    (tmp_path / "train").symlink_to(games / "valid_seen")
    (tmp_path / "valid_seen").symlink_to(games / "valid_seen")
    trains("alfworld-small", tmp_path, f"environment.folder={tmp_path}")


def test_webshop(tmp_path: Path) -> None:
    trains("webshop-sample", tmp_path)


@pytest.mark.skipif(find_spec("scienceworld") is None, reason="the extra scienceworld is not installed")
def test_scienceworld(tmp_path: Path) -> None:
    trains("scienceworld-small", tmp_path)


def trains(recipe: str, folder: Path, *overrides: str) -> None:
    """Two updates from the recipe: made, accounted for, and with turns that followed their references."""
    store, student, run = folder / "references.jsonl", folder / "student", folder / "run"
    short = ("run.updates=2", "evaluation.at_end=false")
    config = resolve(recipe, [*overrides, *short, f"references.path={store}", f"models.student={student}"])
    world = open_world(config.environment)
    order = TaskOrder(tuple(world.tasks("train")), config.rollout.tasks_per_batch, config.run.seed)
    opener, plan = partial(open_world, config.environment), Plan((config.references.source,), workers=0)
    tasks = order.batch(0)[:GUIDED]
    build_store(kind_of(config.environment), opener, plan, tasks, store)
    reference = ReferenceStore.open(store, world).get(tasks[0])
    assert reference is not None
    teach(world, tasks[0], reference, config, student)
    train(config, run)

    updates = [line for line in read_metrics(run) if line["type"] == "update"]
    assert [line["update"] for line in updates] == [1, 2]
    ledger = updates[-1]["ledger"]
    assert ledger["trained"] == 2 * config.learner.batch_size
    assert ledger["generated"] == ledger["trained"] + sum(ledger["discarded"].values()) + ledger["buffered"]
    episodes = list(read_episodes(run))
    assert all(episode["error"] is None for episode in episodes)
    guided = [turn for episode in episodes for turn in episode["turns"] if turn["source"] == "inverse_dynamics"]
    assert sum(turn["verdict"] == "aligned" for turn in guided) > 0


def teach(world: World, task: Task, reference: Reference, config: Config, folder: Path) -> None:
    """The shipped student after a lesson in the first action of a reference, as a model folder."""
    shipped = resolve_model("pocket:student", "models.student")
    tokenizer = AutoTokenizer.from_pretrained(shipped)
    encoder, environment = PromptEncoder(tokenizer), world.open()
    instruction, seen = environment.reset(task)
    environment.close()
    prompt = fit(
        encoder,
        read_templates(kind_of(config.environment).prompts),
        Mode.INVERSE_DYNAMICS,
        TurnContext(instruction, (), seen, 1),
        config.rollout.generation.prompt_limit,
        reference.steps[0].observation.text,
    )
    answer = encoder.encode_output(f"{ACTION}{reference.steps[0].action}{END_ACTION}")
    learner, lesson = Learner(shipped, LESSON), as_samples([Example(prompt.ids, answer)])
    losses = [learner.fit(lesson, 3e-3).loss for _ in range(60)]
    assert losses[-1] < 0.05
    save(folder.parent / "lesson", learner, (), {})
    folder.symlink_to(folder.parent / "lesson" / "step-000060" / "model")
