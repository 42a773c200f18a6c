"""The model card of a trained student: what was trained, how, on what, with which result. Markdown for the hub."""

from __future__ import annotations

from typing import Any

from actfirst import __version__
from actfirst.models.hub import is_hub_id
from actfirst.runs.run import Run, StoredCheckpoint


def model_card(run: Run, checkpoint: StoredCheckpoint) -> str:
    """Recipe, data, results and the ledger of samples, from the run folder alone."""
    config = run.config
    student, teacher = config["models"]["student"], config["models"].get("teacher", "")
    base = [f"base_model: {student.partition('@')[0]}"] if is_hub_id(student) else []
    return "\n".join(
        [
            "---",
            "library_name: transformers",
            "pipeline_tag: text-generation",
            "tags: [actfirst, on-policy-distillation, agent]",
            *base,
            "---",
            "",
            f"# {student.partition('@')[0].rpartition('/')[2]}, trained on {config['environment']['name']}",
            "",
            f"Trained by actfirst {__version__} with the method `{config['rollout']['method']}`, "
            f"{checkpoint.update} updates of {config['learner']['batch_size']} responses.",
            "",
            f"- student: `{student}`",
            f"- teacher: `{teacher or 'none'}`",
            f"- seed: {run.seed}",
            "",
            "## Data",
            "",
            *_table(config["environment"]),
            "",
            "## Results",
            "",
            *_results(run),
            "",
            "## Samples",
            "",
            *_ledger(run),
            "",
            "## Recipe",
            "",
            "`recipe.toml` in this repository is the whole configuration: `actfirst train recipe.toml`.",
            "",
            *_table(config["learner"]),
            "",
        ]
    )


def _results(run: Run) -> list[str]:
    if not run.curve:
        return ["The run was not evaluated."]
    rows = [f"| {line.update} | {line.success_rate:.1f} % |" for line in run.curve]
    return ["| update | success |", "|---|---|", *rows]


def _ledger(run: Run) -> list[str]:
    if not run.finished:
        return ["The run is not finished."]
    counts = run.summary.ledger.model_dump()
    return _table({name: value for name, value in counts.items() if not isinstance(value, dict)})


def _table(values: dict[str, Any]) -> list[str]:
    plain = {name: value for name, value in values.items() if not isinstance(value, dict)}
    return ["| | |", "|---|---|", *(f"| {name} | {value} |" for name, value in plain.items())]
