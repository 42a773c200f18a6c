"""Makes the pocket models from nothing: tokenizer, demonstrations, training, measurement. One call, resumable.

    short     on short contexts everything can be learned at half the cost: texts, modes, how to look things up
    base      the same on contexts of all lengths
    teacher   the base, trained on with more of the expert, but hasty where no reasoning is asked for
    student   the base, trained on with sloppy demonstrations: the skills are there and are used badly

Teacher and student have one tokenizer and one architecture, as two models of one family would. No house of the
world in which they are evaluated is trained on, nor any with the receptacles of its unseen layouts.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from random import Random
from statistics import fmean
from typing import TYPE_CHECKING, Any, Literal

import torch
from transformers import AutoTokenizer, Qwen3ForCausalLM

from actfirst import __version__
from actfirst.config.sections import LearnerSection
from actfirst.environments.alfworld.lexicon import LEXICON, numbered_names
from actfirst.environments.pocket.catalogue import OBJECTS, RECEPTACLE_TYPES
from actfirst.environments.pocket.kind import KIND
from actfirst.errors import ConfigError
from actfirst.lab.pocket_models.demonstrations import (
    Demonstrators,
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
from actfirst.lab.pocket_models.measure import Scope, measure_model
from actfirst.lab.pocket_models.new_model import Shape, new_model
from actfirst.lab.pocket_models.tokenizer import MAX_POSITIONS, train_tokenizer
from actfirst.learning.checkpoint import latest_valid, prune, save
from actfirst.learning.sft import as_samples, batch_at, rate_at
from actfirst.learning.update import Learner
from actfirst.policy.render import read_templates, render
from actfirst.policy.thinking_budget import early_stop
from actfirst.policy.tokens import PromptEncoder
from actfirst.reading import parse_json, read_object
from actfirst.records import Mode
from actfirst.runs.files import write_json
from actfirst.runs.manifest import complete_steps

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

Say = Callable[[str], None]

RESULT_FILE = "build_result.json"
PROMPT_LIMIT = 640
_HIGHEST_NUMBER = 4  # how high things of a kind are numbered in pocket houses
_TELL = 50  # updates between two reports
_SAVE = 200  # updates between two checkpoints
_MODELS = ("teacher", "student")
_TOKENIZER, _PLAN, _STAGE, _MEASURED = "tokenizer", "plan.json", "stage.json", "measured.json"
_START, _MODEL = "start", "model"


@dataclass(frozen=True, slots=True)
class Stage:
    """One training stage: walks `first` to `first + walks`, and how to train on them."""

    first: int
    walks: int
    steps: int
    batch_size: int = 16
    learning_rate: float = 2e-3
    schedule: Literal["cosine", "constant"] = "cosine"
    final_rate: float = 0.1
    prompt_weight: float = 0.0
    warmup: int = 50
    longest: int = MAX_POSITIONS
    shares: Shares = field(default_factory=Shares)
    kitchens: float = 1.0  # share of kitchens kept


@dataclass(frozen=True, slots=True)
class BuildPlan:
    """A whole build.

    The student's demonstrator is the expert in `expert_share` of turns, else it has `faults`. Who acts without
    reasoning goes by what it saw last: the teacher's demonstrator then has the faults of `haste`, the student's
    `faults_in_haste`.
    """

    shape: Shape = field(default_factory=Shape)
    vocabulary_walks: int = 300
    short: Stage = Stage(1000, 5000, 600, schedule="constant", prompt_weight=0.2, longest=180)
    base: Stage = Stage(1000, 5000, 2000, learning_rate=1.5e-3, prompt_weight=0.1, final_rate=0.25)
    teacher: Stage = Stage(6000, 6000, 1200, 32, 1e-3, final_rate=0.02, shares=Shares(0.15, 0.15), kitchens=0.4)
    student: Stage = Stage(11000, 800, 200, 32, 1e-3)
    expert_share: float = 0.05
    faults: Faults = field(default_factory=lambda: Faults(forget=0.9, misread=0.78, slip=0.3))
    faults_in_haste: Faults = field(default_factory=lambda: Faults(forget=1.0, misread=0.6, slip=0.3))
    haste: Faults = field(default_factory=lambda: Faults(forget=0.9, misread=0.1, slip=0.1))
    scope: Scope = field(default_factory=Scope)

    @classmethod
    def quick(cls) -> BuildPlan:
        """A build of a minute or two that goes through everything. Its models have learned next to nothing."""
        return cls(
            vocabulary_walks=60,
            short=Stage(1000, 40, 20, schedule="constant", prompt_weight=0.2, longest=180),
            base=Stage(1000, 40, 20, prompt_weight=0.1, final_rate=0.25),
            teacher=Stage(6000, 20, 10, 16, 1e-3),
            student=Stage(11000, 20, 10, 16, 1e-3),
            scope=Scope(tasks_per_split=6, seeds=(42,), references=2),
        )


def build_models(out: Path, plan: BuildPlan, say: Say, *, threads: int) -> dict[str, Any]:
    """Write `teacher/`, `student/` and build_result.json into `out`; a stopped build is continued."""
    torch.set_num_threads(threads)
    work = out / "work"
    _claim(work, plan)
    tokenizer = _tokenizer(work / _TOKENIZER, plan, say)
    school = _School(work, tokenizer, plan, say)
    hasty = sloppy(plan.haste)
    careless = mixed(plan.expert_share, expert, sloppy(plan.faults))
    school.train("short", plan.short, Demonstrators(expert, expert), None)
    school.train("base", plan.base, Demonstrators(expert, expert), "short")
    school.train("teacher", plan.teacher, Demonstrators(expert, hasty), "base")
    school.train("student", plan.student, Demonstrators(careless, sloppy(plan.faults_in_haste)), "base")
    for name in _MODELS:
        publish(work / name / _MODEL, out / name)
    result = {
        "actfirst": __version__,
        "torch": torch.__version__,
        "threads": threads,
        "plan": asdict(plan),
        "vocabulary": len(tokenizer),
        "parameters": _parameters(out / "student"),
        "tokens": school.lengths(),
        "stages": {name: _read(work / name / _STAGE) for name in ("short", "base", "teacher", "student")},
        "models": {name: _measured(work / name, out / name, plan, threads, say) for name in _MODELS},
    }
    write_json(out / RESULT_FILE, result)
    shutil.rmtree(work)
    return result


class _School:
    """Trains stage after stage; what is finished is on disk and not done again."""

    def __init__(self, work: Path, tokenizer: PreTrainedTokenizerFast, plan: BuildPlan, say: Say) -> None:
        self._work = work
        self._tokenizer = tokenizer
        self._shape = plan.shape
        self._say = say
        self._encoder = Encoder(PromptEncoder(tokenizer), PROMPT_LIMIT)

    def train(self, name: str, stage: Stage, by: Demonstrators, origin: str | None) -> None:
        """Train `name` from scratch, or from the model of stage `origin`."""
        folder = self._work / name
        if (folder / _STAGE).is_file():
            self._say(f"{name}: already trained")
            return
        self._say(f"{name}: writing demonstrations")
        started = time.monotonic()
        pairs = demonstrations(stage.first, stage.walks, by, stage.shares, self._encoder, stage.kitchens)
        examples = [pair for pair in pairs if pair.length <= stage.longest]
        written = time.monotonic() - started
        source = self._start() if origin is None else self._work / origin / _MODEL
        learner, trained = _learner(source, folder, stage)
        for step in range(learner.version, stage.steps):
            batch = as_samples(batch_at(step, examples, stage.batch_size, 0), stage.prompt_weight)
            stats = learner.fit(batch, rate_at(step, stage))
            trained = trained.with_step(stats.loss, stats.tokens, stats.seconds)
            done = step + 1
            if done % _TELL == 0 or done == stage.steps:
                loss, rate = fmean(trained.losses[-_TELL:]), trained.tokens / trained.seconds
                self._say(f"{name}: update {done} of {stage.steps}, loss {loss:.4f}, {rate:.0f} tokens/s")
            if done % _SAVE == 0 or done == stage.steps:
                save(folder, learner, (), asdict(trained))
                prune(folder, 1)
        shutil.rmtree(folder / _MODEL, ignore_errors=True)
        shutil.copytree(complete_steps(folder)[0] / "model", folder / _MODEL)
        summary = {
            "examples": len(examples),
            "tokens": trained.tokens,
            "first_loss": round(fmean(trained.losses[:_TELL]), 4),
            "last_loss": round(fmean(trained.losses[-_TELL:]), 4),
            "seconds_demonstrations": round(written, 1),
            "seconds_training": round(trained.seconds, 1),
        }
        write_json(folder / _STAGE, summary)

    def _start(self) -> Path:
        """The model of random weights from which the first stage begins."""
        folder = self._work / _START
        if not (folder / "tokenizer.json").is_file():
            new_model(self._shape, self._tokenizer).save_pretrained(folder)
            self._tokenizer.save_pretrained(folder)
        return folder

    def lengths(self) -> dict[str, float]:
        """Mean tokens of prompts and responses over mixed walks, by mode."""
        found: dict[str, float] = {}
        for mode in Mode:
            shares = Shares(float(mode is Mode.NEXT_ACTION), float(mode is Mode.INVERSE_DYNAMICS))
            pairs = list(demonstrations(0, 60, Demonstrators(expert, expert), shares, self._encoder))
            found[f"{mode.value} prompt"] = round(fmean(len(pair.prompt_ids) for pair in pairs), 1)
            found[f"{mode.value} response"] = round(fmean(len(pair.response_ids) for pair in pairs), 1)
        return found


def _claim(work: Path, plan: BuildPlan) -> None:
    """Continue only what was begun with the same plan."""
    made = parse_json(json.dumps({"actfirst": __version__, **asdict(plan)}))
    path = work / _PLAN
    if not path.is_file():
        work.mkdir(parents=True, exist_ok=True)
        write_json(path, made)
    elif _read(path) != made:
        raise ConfigError(
            f"{work} holds an unfinished build of another plan; remove it, or choose another folder"
        )


def _tokenizer(folder: Path, plan: BuildPlan, say: Say) -> PreTrainedTokenizerFast:
    if not (folder / "tokenizer.json").is_file():
        say("tokenizer: collecting the words of the domain")
        kinds = {kind.lower(): _HIGHEST_NUMBER for kind in (*OBJECTS, *RECEPTACLE_TYPES)}
        train_tokenizer(
            _texts(plan), numbered_names(kinds), LEXICON, [read_templates(KIND.prompts)]
        ).save_pretrained(folder)
    return AutoTokenizer.from_pretrained(folder)


def _texts(plan: BuildPlan) -> Iterator[str]:
    """What the models will read and write."""
    rng = Random("pocket vocabulary")
    templates = read_templates(KIND.prompts)
    demonstrators = (expert, sloppy(plan.faults))
    yield early_stop()
    for visits in walks(0, plan.vocabulary_walks):
        for visit in visits:
            yield render(templates, Mode.FULL, visit.context, len(visit.context.history))
            yield visit.after.text
            yield from (response_text(turn(visit.context, rng)) for turn in demonstrators)


def _load(folder: Path) -> PreTrainedModel:
    return Qwen3ForCausalLM.from_pretrained(folder, dtype=torch.float32)


@dataclass(frozen=True, slots=True)
class _Trained:
    """What a stage did so far; a checkpoint keeps it."""

    losses: tuple[float, ...] = ()
    tokens: int = 0
    seconds: float = 0.0

    def with_step(self, loss: float, tokens: int, seconds: float) -> _Trained:
        return _Trained((*self.losses, loss), self.tokens + tokens, self.seconds + seconds)


def _learner(source: Path, folder: Path, stage: Stage) -> tuple[Learner, _Trained]:
    """The learner of a stage, as its newest checkpoint left it or new."""
    settings = LearnerSection(
        learning_rate=stage.learning_rate,
        betas=(0.9, 0.98),
        weight_decay=0.1,
        grad_clip=0.5,
        token_budget=4096,
        precision="float32",
    )
    learner = Learner(source, settings)
    stored = latest_valid(folder).checkpoint if folder.is_dir() else None
    if stored is None:
        return learner, _Trained()
    learner.restore(stored.learner)
    state = stored.trainer_state
    return learner, _Trained(tuple(state["losses"]), int(state["tokens"]), float(state["seconds"]))


def publish(source: Path, target: Path) -> None:
    """The checkpoint as it ships: 16-bit weights, tokenizer, nothing else."""
    if target.exists():
        shutil.rmtree(target)
    _load(source).to(torch.bfloat16).save_pretrained(target)
    AutoTokenizer.from_pretrained(source).save_pretrained(target)


def _measured(work: Path, folder: Path, plan: BuildPlan, threads: int, say: Say) -> dict[str, Any]:
    path = work / _MEASURED
    if not path.is_file():
        say(f"{folder.name}: measuring")
        write_json(path, measure_model(folder, plan.scope, threads))
    return _read(path)


def _parameters(folder: Path) -> int:
    return sum(parameter.numel() for parameter in _load(folder).parameters())


def _read(path: Path) -> dict[str, Any]:
    content: dict[str, Any] = read_object(path)
    return content
