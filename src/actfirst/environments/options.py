"""Options that a recipe hands on to somebody else's environment."""

from __future__ import annotations

from typing import Any


def plain(value: Any) -> Any:
    """Lists as others want them: recipes hold tuples."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, tuple) else value
