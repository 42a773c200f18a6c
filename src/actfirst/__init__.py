"""actfirst: on-policy distillation of multi-turn language agents in which reasoning never blocks acting.

What a notebook imports:

    config = actfirst.load_recipe("pocket", "run.updates=20")
    summary = actfirst.train(config, "runs/short")
    result = actfirst.evaluate_model("runs/short", config)
    run = actfirst.open_run("runs/short")

Environments and methods of one's own join by `register_environment` and `register_method`.

`import actfirst` loads nothing else; torch comes with the first call that needs it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from actfirst.config.config import Config
    from actfirst.environments.registry import Kind
    from actfirst.methods.table import Row
    from actfirst.runs.evaluations import Evaluation
    from actfirst.runs.lines import Summary
    from actfirst.runs.run import Run
    from actfirst.training.watch import Watcher

__version__ = "0.1.0"
__all__ = [
    "__version__",
    "evaluate_model",
    "load_recipe",
    "open_run",
    "register_environment",
    "register_method",
    "train",
]


def load_recipe(recipe: str | Path, *overrides: str) -> Config:
    """The checked configuration of a recipe, by its name or file, with settings such as "run.updates=20"."""
    from actfirst.config.load import resolve

    return resolve(recipe, overrides)


def train(
    config: Config, folder: str | Path, *, resume: bool = False, watcher: Watcher | None = None
) -> Summary:
    """Train to the end, or with `resume` from where the run in `folder` stands; returns the summary."""
    from pathlib import Path

    from actfirst.training import open as opening

    return opening.train(config, Path(folder), resume=resume, watcher=watcher)


def evaluate_model(model: str | Path, config: Config) -> Evaluation:
    """Evaluate by the paper's protocol, with a recipe's evaluation settings.

    `model` is a Hugging Face checkpoint folder, a run folder, pocket:student or pocket:teacher.
    """
    import asyncio

    from actfirst.models.folder import resolve_model
    from actfirst.training import playing

    folder = resolve_model(str(model), "model")
    return asyncio.run(playing.evaluate_model(config, folder, lambda done, of: None))


def open_run(folder: str | Path) -> Run:
    """What a run left behind: its configuration, metrics, episodes, checkpoints and summary; nothing is changed."""
    from pathlib import Path

    from actfirst.runs import run

    return run.open_run(Path(folder))


def register_environment(kind: Kind) -> None:
    """Make an environment known to this process; recipes may then name it."""
    from actfirst.environments import registry

    registry.register_environment(kind)


def register_method(name: str, row: Row) -> None:
    """Make a method known to this process; recipes may then name it as `rollout.method`."""
    from actfirst.methods import table

    table.register_method(name, row)
