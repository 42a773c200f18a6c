"""The `paper` presets against two tables of the paper's appendix, row by row: "Training hyperparameters across
all benchmarks" and "Evaluation hyperparameters across all benchmarks"."""

from __future__ import annotations

import pytest

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.config.recipe_files import recipe_text
from actfirst.lab.rollout.settings import SCALES, engine_of
from actfirst.training.playing import engine_settings, engines_of, in_play

TURN_LIMITS = {"alfworld": 30, "webshop": 15, "scienceworld": 30}
SIZES = ("0.6B", "1.7B", "4B")
PRESETS = [f"paper/{bench}-{size.lower()}" for bench in TURN_LIMITS for size in SIZES]

TRAINING_TABLE = [
    ("PPO clipping", "learner.clip", 0.2),
    ("Dual-clipping constant", "learner.dual_clip", 3.0),
    ("Learning rate", "learner.learning_rate", 1e-6),
    ("Adam coefficients", "learner.betas", (0.9, 0.999)),
    ("Weight decay", "learner.weight_decay", 0.01),
    ("Gradient norm clipping", "learner.grad_clip", 1.0),
    ("Sample staleness control: version lag", "learner.max_version_lag", 1),
    ("Training updates", "run.updates", 250),
    ("Rollout batch", "rollout.tasks_per_batch", 16),
    ("Optimization batch", "learner.batch_size", 64),
    ("Prompt limit", "rollout.generation.prompt_limit", 10_240),
    ("Full-response limit", "rollout.generation.response_limit", 512),
    ("Thinking budget (first stage)", "rollout.generation.first_stage", 384),
    ("Action continuation budget", "rollout.generation.continuation", 128),
    ("Sampling temperature", "rollout.generation.temperature", 1.0),
    ("Top-p", "rollout.generation.top_p", 1.0),
    ("Top-k filtering: disabled", "rollout.generation.top_k", 0),
    ("Rollout engine seed", "run.seed", 42),
    ("Precision", "learner.precision", "bfloat16"),
    ("Precision", "engine.dtype", "bfloat16"),
    ("Precision", "teacher.dtype", "bfloat16"),
    ("Dynamic batching token budget", "learner.token_budget", 16_384),
    ("Prefix caching: disabled", "engine.prefix_caching", False),
    ("Prefix caching: disabled", "teacher.prefix_caching", False),
    ("Rollout GPUs", "runtime.rollout_engines", 4),
    ("Rollout engines per GPU", "runtime.engine_gpus", 1.0),
    ("Teacher-scoring GPUs", "runtime.teacher_replicas", 2),
    ("Teacher-scoring GPUs", "runtime.teacher_gpus", 1.0),
    ("Student parameter optimization GPUs", "runtime.learners", 2),
    ("Student parameter optimization GPUs", "runtime.learner_gpus", 1.0),
    ("Inference tensor parallelism", "engine.vllm.tensor_parallel", 1),
    ("Inference tensor parallelism", "teacher.vllm.tensor_parallel", 1),
    ("vLLM GPU memory fraction", "engine.vllm.gpu_memory_utilization", 0.7),
    ("vLLM GPU memory fraction", "teacher.vllm.gpu_memory_utilization", 0.7),
]

EVALUATION_TABLE = [
    ("Evaluation seeds", "evaluation.seeds", (42, 43, 44)),
    ("Evaluation batch", "evaluation.batch_tasks", 64),
    ("Hardware: 8 GPUs, one inference engine each", "evaluation.engines", 8),
    ("vLLM GPU memory fraction", "evaluation.memory", 0.82),
    ("Inference tensor parallelism", "engine.vllm.tensor_parallel", 1),
    ("Prompt limit", "evaluation.generation.prompt_limit", 20_480),
    ("Full-response limit", "evaluation.generation.response_limit", 2_048),
    ("Thinking budget (first stage)", "evaluation.generation.first_stage", 1_920),
    ("Action continuation budget", "evaluation.generation.continuation", 128),
    ("Sampling temperature", "evaluation.generation.temperature", 0.4),
    ("Top-p", "evaluation.generation.top_p", 1.0),
    ("Top-k filtering: disabled", "evaluation.generation.top_k", 0),
    ("Precision", "engine.dtype", "bfloat16"),
    ("Prefix caching: disabled", "engine.prefix_caching", False),
]

# Said elsewhere in the paper.
BESIDE_THE_TABLES = [
    ("Section 4.3: a response for every visited context", "rollout.responses", "all"),
    ("rollout collection and student optimization proceed asynchronously", "rollout.overlap", True),
    ("Rollout Quality: action-only requests stop at 512 tokens", "rollout.generation.fast_limit", 512),
    ("Thinking Budget: a separate action-only decoding path", "rollout.generation.fast_reasoning", "closed"),
    ("the method of the paper", "rollout.method", "actfirst"),
    ("ours, not the paper's: drafts of fast actions", "rollout.generation.drafts", False),
    ("ours, not the paper's: full responses that pause", "engine.preempt", False),
    ("ours, not the paper's: fast actions go before full responses", "engine.priority", False),
    ("OPD Optimization: one set of parameters generated a response", "engine.swap", "drain"),
    ("OPD Optimization: first-in, first-out by completion", "rollout.sample_order", "completion"),
    ("ours, not the paper's: pacing by the cap", "rollout.pacing", False),
    ("every evaluation task", "evaluation.tasks_per_split", 0),
    (
        "Rollout Quality: checkpoints 1, 125 and 250; and the points of the performance-time curve",
        "checkpoint.keep_at",
        (1, 25, 50, 75, 100, 125, 150, 175, 200, 225, 250),
    ),
]

# Rows that have no key: the program does nothing else, they follow from others, or they are solved in another way.
ROWS_WITHOUT_A_KEY = [
    "Distillation objective: student-to-teacher reverse KL",
    "Optimizer: AdamW",
    "Learning-rate schedule: constant, no warmup",
    "Loss aggregation: seq-mean-token-mean",
    "Rollout trajectories per task: 1",
    "Optimization epochs per batch: 1",
    "Weight synchronization interval: every update",
    "Thinking mode: enabled",
    "Hardware: 8 A100-SXM4-80GB GPUs",
    "Rollout engines per GPU: 1",
    "Runners per rollout engine: 4",
    "Total rollout runners: 16",
    "Training sequence parallelism: 2",
    "Interaction mode: think-then-act",
    "Reference information: none",
    "Trajectories per task and seed: 1",
    "Inference engines per GPU: 1",
    "Chunked prefill: enabled",
]


def value_at(config: Config, key: str) -> object:
    value: object = config
    for part in key.split("."):
        value = getattr(value, part)
    return value


@pytest.fixture(scope="module", params=PRESETS)
def preset(request: pytest.FixtureRequest) -> Config:
    return resolve(request.param)


@pytest.mark.parametrize(("row", "key", "value"), TRAINING_TABLE)
def test_table_training_hyperparameters(preset: Config, row: str, key: str, value: object) -> None:
    assert value_at(preset, key) == value, row


@pytest.mark.parametrize(("row", "key", "value"), EVALUATION_TABLE)
def test_table_evaluation_hyperparameters(preset: Config, row: str, key: str, value: object) -> None:
    assert value_at(preset, key) == value, row


@pytest.mark.parametrize(("rule", "key", "value"), BESIDE_THE_TABLES)
def test_what_the_paper_says_beside_the_tables(preset: Config, rule: str, key: str, value: object) -> None:
    assert value_at(preset, key) == value, rule


@pytest.mark.parametrize("name", PRESETS)
def test_both_tables_environment_specific_turn_limits(name: str) -> None:
    config = resolve(name)
    assert config.environment.turn_limit == TURN_LIMITS[config.environment.name]


@pytest.mark.parametrize("bench", TURN_LIMITS)
@pytest.mark.parametrize("size", SIZES)
def test_table_training_hyperparameters_student_and_teacher_models(bench: str, size: str) -> None:
    config = resolve(f"paper/{bench}-{size.lower()}")
    assert config.environment.name == bench
    assert config.models.student == f"Qwen/Qwen3-{size}"
    assert config.models.teacher == f"teachers/{bench}-qwen3-8b"


def test_alfworld_is_evaluated_on_both_splits_of_the_paper() -> None:
    assert resolve("paper/alfworld-4b").evaluation.splits == ("valid_seen", "valid_unseen")


@pytest.mark.parametrize(
    ("bench", "runners", "in_play_at_once"), [("alfworld", 8, 64), ("webshop", 4, 32), ("scienceworld", 4, 32)]
)
def test_runners_per_engine_in_evaluation(bench: str, runners: int, in_play_at_once: int) -> None:
    """Table "Evaluation hyperparameters", "Benchmark-Specific Runners per Engine": on all eight engines."""
    for size in SIZES:
        config = resolve(f"paper/{bench}-{size.lower()}")
        assert config.evaluation.runners == runners
        assert in_play(config.evaluation, engines_of(config)) == in_play_at_once


def test_an_evaluation_has_its_own_share_of_memory_and_training_keeps_its_own(preset: Config) -> None:
    assert engine_settings(preset).vllm.gpu_memory_utilization == 0.82
    assert preset.engine.vllm.gpu_memory_utilization == 0.7
    assert not engine_settings(preset).prefix_caching


def test_the_rollout_efficiency_experiment_has_the_settings_of_its_table() -> None:
    """Table "Rollout efficiency experiment settings", top to bottom."""
    settings = SCALES["paper"]
    assert (settings.tasks, settings.fast, settings.full) == (16, 16, (128, 512))
    config = resolve("paper/alfworld-1.7b", engine_of("paper", optimised=False))
    assert (config.engine.vllm.tensor_parallel, config.engine.dtype) == (1, "bfloat16")
    assert config.engine.vllm.gpu_memory_utilization == 0.85
    assert config.engine.max_prefill_tokens == 16_384
    assert not config.engine.prefix_caching
    assert not config.engine.vllm.enforce_eager  # CUDA graphs: enabled
    assert settings.caps == (16, 32, 64, 128, 256)
    assert (settings.turns, settings.horizons) == (30, (1, 2, 4, 8, 16, 30))
    assert (settings.cap, settings.repeats) == (256, 3)
    assert (settings.contexts, settings.seed) == (1024, 42)  # appendix "Rollout Efficiency"


@pytest.mark.parametrize("row", ROWS_WITHOUT_A_KEY)
def test_rows_without_a_key_are_named_in_the_base_preset(row: str) -> None:
    comments = " ".join(line for line in recipe_text("paper/base").splitlines() if line.startswith("#"))
    assert row in comments


def test_the_constants_stand_in_the_base_preset_and_are_not_left_to_defaults() -> None:
    """A default may be tuned one day; the paper's constants may not."""
    import tomllib

    stated = tomllib.loads(recipe_text("paper/base"))
    for _, key, value in [*TRAINING_TABLE, *EVALUATION_TABLE, *BESIDE_THE_TABLES]:
        table: object = stated
        for part in key.split("."):
            assert isinstance(table, dict)
            assert part in table, key
            table = table[part]
        assert (tuple(table) if isinstance(table, list) else table) == value


@pytest.mark.parametrize(
    ("bench", "steps", "kl", "normalisation", "mini_batch"),
    [
        ("alfworld", 250, 0.01, "mean_std_norm", 256),
        ("webshop", 2_200, 0.0, "mean_norm", 64),
        ("scienceworld", 144, 0.01, "mean_std_norm", 256),
    ],
)
def test_teachers_are_trained_with_the_constants_of_gigpos_authors(
    bench: str, steps: int, kl: float, normalisation: str, mini_batch: int
) -> None:
    """Appendix "Teacher Training"; the constants are those of the authors' scripts."""
    config = resolve(f"paper/teacher-{bench}-gigpo")
    learner, gigpo = config.learner, config.methods.gigpo
    assert (config.run.updates, config.rollout.method) == (steps, "gigpo")
    assert (config.rollout.tasks_per_batch, config.rollout.group_size) == (16, 8)
    assert (learner.learning_rate, learner.kl_weight, learner.entropy_weight) == (1e-6, kl, 0.001)
    assert (learner.batch_size, learner.whole_batches, learner.aggregation) == (mini_batch, True, "token-mean")
    assert (gigpo.discount, gigpo.step_weight, gigpo.invalid_penalty, gigpo.reward_scale) == (
        0.95,
        1.0,
        0.1,
        10.0,
    )
    assert (gigpo.normalisation, gigpo.over) == (normalisation, "steps")
    assert config.models.teacher == (config.models.student if kl else "")  # the anchor is where training starts


@pytest.mark.parametrize("name", [*TURN_LIMITS, *(f"teacher-{bench}-gigpo" for bench in TURN_LIMITS)])
def test_prompt_details_every_preset_states_that_its_prompts_are_the_papers(name: str) -> None:
    """Appendix "Prompt Details"; growing prompts are ours."""
    import tomllib

    assert tomllib.loads(recipe_text(f"paper/{name}"))["environment"]["prompts"] == "paper"
