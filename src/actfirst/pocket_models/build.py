"""Makes the pocket models from nothing: tokenizer, demonstrations, training, measurement. One call, resumable.

    short     on short contexts everything can be learned at half the cost: texts, modes, how to look things up
    base      the same on contexts of all lengths
    teacher   the base, trained on with more of the expert
    student   the base, trained on with sloppy demonstrations: the skills are there and are used badly

Teacher and student have one tokenizer and one architecture, as two models of one family would. No evaluation
task is ever trained on: demonstrations come from the train split alone.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import torch
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from actfirst import __version__
from actfirst.engines.thinking_budget import early_stop
from actfirst.envs.pocket.world import PocketWorld
from actfirst.errors import ConfigError
from actfirst.pocket_models.demonstrations import (
    Demonstrator,
    Encoder,
    Faults,
    Shares,
    demonstrations,
    expert,
    mixed,
    response_text,
    sloppy,
    walks,
)
from actfirst.pocket_models.measure import Scope, measure
from actfirst.pocket_models.tokenizer import MAX_POSITIONS, train_tokenizer
from actfirst.prompts.render import TEMPLATE_SETS, render
from actfirst.prompts.tokens import PromptEncoder
from actfirst.records import Mode
from actfirst.teacher.sft import Example, SftResult, SftSettings, SftStep, fine_tune
from actfirst.tracking.files import write_json

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

Say = Callable[[str], None]

RESULT_FILE = "build_result.json"
PROMPT_LIMIT = 640
_PER_WALK = 8
_TRAIN_TASKS = 100_000  # a task depends on its number alone, so stages take disjoint parts of one long list
_TOKENIZER, _PLAN, _STAGE = "tokenizer", "plan.json", "stage.json"


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of both models: Qwen3 with tied embeddings and one key-value head."""

    hidden: int = 96
    layers: int = 3
    heads: int = 3
    head_dim: int = 32
    mlp: int = 256


@dataclass(frozen=True, slots=True)
class Stage:
    """One training stage: walks `first` to `first + walks` of the train split, and how to train on them."""

    first: int
    walks: int
    steps: int
    batch_size: int = 16
    learning_rate: float = 2e-3
    schedule: Literal["cosine", "constant"] = "cosine"
    final_rate: float = 0.1
    prompt_weight: float = 0.0
    longest: int = MAX_POSITIONS
    shares: Shares = Shares()


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole build. The student's demonstrator is the expert in `expert_share` of turns, else it has `faults`."""

    shape: Shape = Shape()
    vocabulary_walks: int = 300
    short: Stage = Stage(1000, 5000, 500, schedule="constant", prompt_weight=0.2, longest=180)
    base: Stage = Stage(1000, 5000, 1800, prompt_weight=0.1, final_rate=0.25)
    teacher: Stage = Stage(6000, 5000, 1000, 32, 1e-3, final_rate=0.02, shares=Shares(0.05, 0.15))
    student: Stage = Stage(11000, 1600, 250, 32, 1e-3)
    expert_share: float = 0.15
    faults: Faults = Faults(forget=0.7, misread=0.6, slip=0.15)
    scope: Scope = Scope()

    @classmethod
    def quick(cls) -> Plan:
        """A build of a minute or two that goes through everything. Its models have learned next to nothing."""
        return cls(
            vocabulary_walks=60,
            short=Stage(1000, 40, 20, schedule="constant", prompt_weight=0.2, longest=180),
            base=Stage(1000, 40, 20, prompt_weight=0.1, final_rate=0.25),
            teacher=Stage(6000, 20, 10, 16, 1e-3),
            student=Stage(11000, 20, 10, 16, 1e-3),
            scope=Scope(tasks_per_split=6, seeds=(42,), references=2),
        )


def build(out: Path, plan: Plan, say: Say, *, threads: int) -> dict[str, Any]:
    """Write `teacher/`, `student/` and build_result.json into `out`; a stopped build is continued."""
    started = time.monotonic()
    torch.set_num_threads(threads)
    work = out / "work"
    _claim(work, plan)
    world = PocketWorld(train=_TRAIN_TASKS)
    tokenizer = _tokenizer(work / _TOKENIZER, world, plan, say)
    school = _School(work, world, tokenizer, plan, say)
    school.train("short", plan.short, expert, None)
    school.train("base", plan.base, expert, "short")
    school.train("teacher", plan.teacher, expert, "base")
    school.train("student", plan.student, mixed(plan.expert_share, expert, sloppy(plan.faults)), "base")
    measured: dict[str, Any] = {}
    for name in ("teacher", "student"):
        _publish(work / name, out / name)
        say(f"{name}: measuring")
        measured[name] = measure(out / name, plan.scope, threads)
        say(f"{name}: {_success_line(measured[name])}")
    result = {
        "actfirst": __version__,
        "torch": torch.__version__,
        "threads": threads,
        "world": world.fingerprint,
        "plan": asdict(plan),
        "vocabulary": len(tokenizer),
        "parameters": _parameters(out / "student"),
        "tokens": school.lengths(),
        "stages": {name: _read(work / name / _STAGE) for name in ("short", "base", "teacher", "student")},
        "models": measured,
        "seconds": round(time.monotonic() - started, 1),
    }
    write_json(out / RESULT_FILE, result)
    shutil.rmtree(work)
    return result


class _School:
    """Trains stage after stage; what is finished is on disk and not done again."""

    def __init__(
        self, work: Path, world: PocketWorld, tokenizer: PreTrainedTokenizerFast, plan: Plan, say: Say
    ) -> None:
        self._work = work
        self._world = world
        self._tokenizer = tokenizer
        self._shape = plan.shape
        self._say = say
        self._encoder = Encoder(PromptEncoder(tokenizer), PROMPT_LIMIT)

    def train(self, name: str, stage: Stage, demonstrator: Demonstrator, origin: str | None) -> None:
        """Train `name` from scratch or from the model of stage `origin`."""
        folder = self._work / name
        if (folder / _STAGE).is_file():
            self._say(f"{name}: already trained")
            return
        self._say(f"{name}: writing demonstrations")
        examples = [e for e in self._examples(stage, demonstrator) if e.length <= stage.longest]
        if origin is None:
            torch.manual_seed(0)
            model = Qwen3ForCausalLM(_config(self._shape, self._tokenizer))
        else:
            model = Qwen3ForCausalLM.from_pretrained(self._work / origin, dtype=torch.float32)
        result = fine_tune(
            model, examples, _settings(stage), folder=folder, on_step=_Reporter(name, stage.steps, self._say)
        )
        model.save_pretrained(folder)
        self._tokenizer.save_pretrained(folder)
        write_json(folder / _STAGE, _summary(result, examples))

    def lengths(self) -> dict[str, float]:
        """Mean tokens of prompts and responses over mixed walks, by mode."""
        found: dict[str, float] = {}
        tasks = self._world.tasks("unseen")[:60]
        for mode in Mode:
            shares = Shares(float(mode is Mode.NEXT_ACTION), float(mode is Mode.INVERSE_DYNAMICS))
            pairs = list(
                demonstrations(
                    self._world, tasks, expert, shares, self._encoder, per_walk=_PER_WALK, seed="lengths"
                )
            )
            found[f"{mode.value}_prompt"] = round(fmean(len(pair.prompt_ids) for pair in pairs), 1)
            found[f"{mode.value}_response"] = round(fmean(len(pair.response_ids) for pair in pairs), 1)
        return found

    def _examples(self, stage: Stage, demonstrator: Demonstrator) -> Iterator[Example]:
        tasks = self._world.tasks("train")[stage.first : stage.first + stage.walks]
        seed = f"stage at {stage.first}"
        return demonstrations(
            self._world, tasks, demonstrator, stage.shares, self._encoder, per_walk=_PER_WALK, seed=seed
        )


class _Reporter:
    """Says now and then how far a stage is."""

    def __init__(self, name: str, steps: int, say: Say) -> None:
        self._name, self._steps, self._say = name, steps, say
        self._losses: list[float] = []
        self._tokens, self._seconds = 0, 0.0

    def __call__(self, step: SftStep) -> None:
        self._losses.append(step.loss)
        self._tokens += step.tokens
        self._seconds += step.seconds
        done = step.step + 1
        if done % 50 == 0 or done == self._steps:
            rate = self._tokens / self._seconds
            loss = fmean(self._losses[-50:])
            self._say(f"{self._name}: update {done} of {self._steps}, loss {loss:.4f}, {rate:.0f} tokens/s")


def _claim(work: Path, plan: Plan) -> None:
    """Continue only what was begun with the same plan."""
    made = json.loads(json.dumps({"actfirst": __version__, **asdict(plan)}))
    path = work / _PLAN
    if not path.is_file():
        work.mkdir(parents=True, exist_ok=True)
        write_json(path, made)
    elif _read(path) != made:
        raise ConfigError(
            f"{work} holds an unfinished build of another plan; remove it, or choose another --out"
        )


def _tokenizer(folder: Path, world: PocketWorld, plan: Plan, say: Say) -> PreTrainedTokenizerFast:
    if not (folder / "tokenizer.json").is_file():
        say("tokenizer: collecting the words of the domain")
        train_tokenizer(_texts(world, plan)).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def _texts(world: PocketWorld, plan: Plan) -> Iterator[str]:
    """What the models will read and write."""
    templates = TEMPLATE_SETS[world.rules]
    careless = sloppy(plan.faults)
    yield early_stop()
    for visits in walks(world, world.tasks("train")[: plan.vocabulary_walks], "tokenizer"):
        for visit in visits:
            context = visit.context
            yield render(templates, Mode.FULL, context, len(context.history))
            yield visit.after.text
            yield response_text(expert(context))


def _publish(source: Path, target: Path) -> None:
    """The checkpoint as it ships: 16-bit weights, tokenizer, nothing else."""
    model = Qwen3ForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    if target.exists():
        shutil.rmtree(target)
    model.save_pretrained(target)
    AutoTokenizer.from_pretrained(source).save_pretrained(target)
