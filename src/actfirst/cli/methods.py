"""`actfirst methods`: the table of methods, as `actfirst.methods.table` has it."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

from actfirst.cli.console import print_note, print_table


def methods() -> None:
    """List the methods that `rollout.method` may name, and the five values that each consists of.

    \b
    actfirst train pocket rollout.method=vanilla
    """
    from actfirst.errors import ConfigError
    from actfirst.methods.table import METHODS, Method

    columns = [field.name for field in fields(Method)]
    rows = []
    for name in METHODS:
        try:
            rows.append([name, *(_words(getattr(METHODS[name], column)) for column in columns)])
        except ConfigError as error:  # a broken row of another package does not hide the others
            print_note(str(error))
    print_table(["method", *(column.replace("_", " ") for column in columns)], rows)


def _words(value: object) -> str:
    """A value of a method as a reader would write it: Guided(then NextAction)."""
    if not is_dataclass(value):
        return str(value)
    inner = [(field.name, getattr(value, field.name)) for field in fields(value)]
    # functions have no form worth reading; the method's title says what they do
    shown = [f"{name} {_words(item)}" for name, item in inner if is_dataclass(item) or not callable(item)]
    return type(value).__name__ + (f"({', '.join(shown)})" if shown else "")
