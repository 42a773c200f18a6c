"""Makes the pocket models from nothing: tokenizer, demonstrations, training, measurement. One call, resumable.

    base      learns the house, its texts and the three prompt modes from the expert and from plain transitions:
              first on short contexts, where the same can be learned at half the cost, then on all of them
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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from actfirst.engines.thinking_budget import early_stop
from actfirst.envs.pocket.world import PocketWorld
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
from actfirst.pocket_models.tokenizer import MAX_POSITIONS, train_tokenizer
from actfirst.prompts.render import TEMPLATE_SETS, render
from actfirst.prompts.tokens import PromptEncoder
from actfirst.records import Mode, Task

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from actfirst.pocket_models.measure import Scope
    from actfirst.teacher.sft import Example, SftSettings

RESULT_FILE = "build_result.json"
PROMPT_LIMIT = 640
_TRAIN_TASKS = 200_000  # a task depends on its number alone, so stages take disjoint ranges of one long list


@dataclass(frozen=True, slots=True)
class Shape:
    """The size of both models."""

    hidden: int = 96
    layers: int = 3
    heads: int = 3
    head_dim: int = 32
    mlp: int = 256


@dataclass(frozen=True, slots=True)
class Stage:
    """One training stage: which demonstrations (`tasks` walks, `longest` tokens at most) and how to train."""

    tasks: int
    steps: int
    batch_size: int
    learning_rate: float
    shares: Shares = Shares()
    longest: int = MAX_POSITIONS
    prompt_weight: float = 0.0
    schedule: str = "cosine"
    final_rate: float = 0.1


@dataclass(frozen=True, slots=True)
class Plan:
    """A whole build. `expert_share` and `faults` say how the student's demonstrators behave."""

    shape: Shape = Shape()
    vocabulary_tasks: int = 300
    short: Stage = Stage(3500, 500, 16, 2e-3, longest=180, prompt_weight=0.2, schedule="constant")
    base: Stage = Stage(7000, 1800, 16, 2e-3, prompt_weight=0.1, final_rate=0.25)
    teacher: Stage = Stage(7000, 1000, 32, 1e-3, shares=Shares(0.05, 0.15), final_rate=0.02)
    student: Stage = Stage(1600, 250, 32, 1e-3)
    expert_share: float = 0.15
    faults: Faults = Faults(forget=0.7, misread=0.6, slip=0.15)
    tasks_per_split: int = 120
    seeds: tuple[int, ...] = (42, 43, 44)
