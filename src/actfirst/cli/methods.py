"""`actfirst methods`: the table of methods, as `actfirst.methods.table` has it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from actfirst.cli.console import print_table


def methods() -> None:
    """List the methods that `rollout.method` may name, and the four values that each consists of.

    \b
    actfirst train pocket rollout.method=vanilla
    """
    from actfirst.methods.table import METHODS, Method

    columns = [field.name for field in fields(Method)]
    rows = [
        [name, *(_words(getattr(method, column)) for column in columns)] for name, method in METHODS.items()
    ]
    print_table(["method", *(column.replace("_", " ") for column in columns)], rows)


def _words(value: object) -> str:
    """A value of a method as a reader would write it: Guided(then NextAction)."""
    if not is_dataclass(value):
        return str(value)
    inner = [(field.name, getattr(value, field.name)) for field in fields(value)]
    # functions have no form worth reading; the method's title says what they do
    shown = [f"{name} {_words(item)}" for name, item in inner if is_dataclass(item) or not callable(item)]
    return type(value).__name__ + (f"({', '.join(shown)})" if shown else "")
