"""From `runtime.kind` to what trains. Runtimes are imported when they are chosen."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from actfirst.config.config import Config
from actfirst.errors import ConfigError
from actfirst.runs.lines import Summary
from actfirst.training.watch import Watcher


def train(config: Config, folder: Path, *, resume: bool = False, watcher: Watcher | None = None) -> Summary:
    """Train where the recipe says."""
    if config.runtime.kind == "local":
        from actfirst.training.local import train as train_locally

        return train_locally(config, folder, resume=resume, watcher=watcher)
    if find_spec("ray") is None:
        raise ConfigError(
            "runtime.kind = \"ray\" needs Ray: pip install 'actfirst[ray]'; or train in one process with "
            "runtime.kind=local and one of each part"
        )
    from actfirst.training.ray.train import train as train_on_ray

    return train_on_ray(config, folder, resume=resume, watcher=watcher)
