"""`actfirst recipes`: look at the packaged recipes, and take one as a start for your own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from actfirst.cli.console import print_note, print_table
from actfirst.terminal.visible import say

app = typer.Typer(help="List, show and copy recipes: TOML files that say what to train.", no_args_is_help=True)


@app.command("list")
def list_recipes() -> None:
    """List all recipes with a line on each. `Base` recipes are there to be extended, not to be run."""
    from actfirst.config.recipe_files import recipe_description, recipe_names

    print_table(("recipe", "what it is"), [(name, recipe_description(name)) for name in recipe_names()])


@app.command("show")
def show_recipe(
    name: Annotated[str, typer.Argument(help="A name that `actfirst recipes list` shows, or a .toml file.")],
    resolved: Annotated[bool, typer.Option("--resolved", help="Show every key, defaults included.")] = False,
) -> None:
    """Print a recipe.

    \b
    actfirst recipes show pocket
    actfirst recipes show pocket --resolved
    """
    from actfirst.config.load import dump_toml, resolve
    from actfirst.config.recipe_files import source_text

    say(dump_toml(resolve(name)) if resolved else source_text(name), end="")


@app.command("copy")
def copy_recipe(
    name: Annotated[str, typer.Argument(help="A name that `actfirst recipes list` shows.")],
    file: Annotated[Path | None, typer.Argument(help="Where to; the recipe's own name if left out.")] = None,
) -> None:
    """Copy a recipe to a file that you can edit and train with. What it extends stays in the package.

    \b
    actfirst recipes copy pocket my.toml
    actfirst train my.toml
    """
    from actfirst.config.recipe_files import SUFFIX, recipe_text
    from actfirst.errors import ConfigError
    from actfirst.runs.files import write_atomically

    text = recipe_text(name)
    target = file or Path(name.rpartition("/")[2] + SUFFIX)
    if target.suffix != SUFFIX:
        raise ConfigError(f"a recipe file ends in {SUFFIX}: write {target}{SUFFIX}")
    if target.exists():
        raise ConfigError(f"{target} exists already; choose another name")
    write_atomically(target, text)
    print_note(f"copied; train with: actfirst train {target}")
