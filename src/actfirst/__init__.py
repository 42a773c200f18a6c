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

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from actfirst.config.config import Config
    from actfirst.environments.registry import Kind
    from actfirst.methods.table import Row
    from actfirst.runs.evaluations import Evaluation
    from actfirst.runs.lines import Summary
    from actfirst.runs.run import Run
    from actfirst.training.watch import Watcher

T = TypeVar("T")

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
    """The checked configuration of a recipe.

    `recipe` is a name that `actfirst recipes list` shows, or a TOML file. Each override replaces one setting by its
    dotted key: "run.updates=20", "evaluation.splits=['seen']". ConfigError names a key or value that is wrong, and
    what would be right. Nothing is started.
    """
    from actfirst.config.load import resolve

    return resolve(recipe, overrides)


def train(
    config: Config, folder: str | Path, *, resume: bool = False, watcher: Watcher | None = None
) -> Summary:
    """Train to the end, and return the summary: success before and after, seconds, what became of responses.

    Everything that happens is written to `folder`, which must not hold a run yet; with `resume` it does, and training
    goes on from its newest checkpoint. `watcher` is told of each batch, update and evaluation. A notebook stops
    it by restarting its kernel, and goes on with `resume`.
    """
    from pathlib import Path

    from actfirst.training import open as opening

    return _beside_a_loop(lambda: opening.train(config, Path(folder), resume=resume, watcher=watcher))


def evaluate_model(model: str | Path, config: Config) -> Evaluation:
    """Evaluate by the paper's protocol: think, then act, without references. `config.evaluation` says on what.

    `model` is a Hugging Face checkpoint folder, a run folder (its newest checkpoint), `owner/name` of the hub,
    pocket:student or pocket:teacher. The result has success rate, score and rounds: `result.overall`, `by_split` and
    `by_kind`.
    """
    import asyncio

    from actfirst.models.folder import resolve_model
    from actfirst.training import playing

    folder = resolve_model(str(model), "model")
    return _beside_a_loop(lambda: asyncio.run(playing.evaluate_model(config, folder, lambda done, of: None)))


def open_run(folder: str | Path) -> Run:
    """What a run left behind: configuration, metrics, episodes, trained responses, checkpoints and summary.

    Nothing is changed, and each part is read when it is asked for, also while the run is still training.
    RunFolderError if there is no run in `folder`.
    """
    from pathlib import Path

    from actfirst.runs import run

    return run.open_run(Path(folder))


def register_environment(kind: Kind) -> None:
    """Make an environment known to this process; recipes may then name it as `environment.name`.

    A package needs no call: it announces its kind by an entry point of the group `actfirst.environments`.
    """
    from actfirst.environments import registry

    registry.register_environment(kind)


def register_method(name: str, row: Row) -> None:
    """Make a method known to this process; recipes may then name it as `rollout.method`.

    `row` is a `Method`, or a `Configured` one whose constants recipes set as `methods.<name>.<key>`.
    """
    from actfirst.methods import table

    table.register_method(name, row)


def _beside_a_loop(call: Callable[[], T]) -> T:
    """Call what runs an event loop of its own. Where one is running already, as in a notebook, that needs a thread."""
    import asyncio
    from concurrent.futures import ThreadPoolExecutor

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return call()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(call).result()
