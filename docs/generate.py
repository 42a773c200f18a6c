"""The pages of the site that are made of the program itself: every recipe key and every command. A hook of MkDocs.

Nothing of this is stored: what the pages say is what this version does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic_core import PydanticUndefined

from actfirst.config.base import Section
from actfirst.config.config import Config
from actfirst.config.schema import wanted
from actfirst.environments.base import EnvironmentSection
from actfirst.environments.registry import built_in_kinds

ROOT = Path(__file__).parents[1]
_OUTSIDE = re.compile(r"<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)=\"?(?:https?:)?//[^\s\">]+[^>]*>")


def recipe_page() -> str:
    """Every key that a recipe may set, section by section."""
    intro = (
        "# Recipe keys\n\nA recipe is a TOML file of these sections. `extends` names a recipe that it begins from. "
        "On the command line a key is written with its section: `learner.learning_rate=1e-4`. `actfirst recipes list` "
        "shows the recipes that ship; `actfirst train RECIPE --dry-run` prints every key of one with its value.\n\n"
        "This page is made of the program's own schema (`config/*sections.py`, and `section.py` of each environment)."
    )
    return "\n\n".join([intro, *_sections(Config, "", None)]) + "\n"


def _sections(section: type[Section], prefix: str, preset: Section | None) -> Iterator[str]:
    """The tables of the sections inside a section; `preset` has the defaults where they are not the class's."""
    for name, field in section.model_fields.items():
        key = f"{prefix}{name}"
        if field.annotation is EnvironmentSection:
            for kind in built_in_kinds().values():
                yield _table(kind.section, f'`[{key}]` with `name = "{kind.name}"`', None)
        elif (inner := _as_section(field.annotation)) is not None:
            values = getattr(preset, name) if preset else field.default
            inside = values if isinstance(values, Section) else None
            yield _table(inner, f"`[{key}]`", inside)
            yield from _sections(inner, f"{key}.", inside)
        elif (item := _as_section((get_args(field.annotation) or (None,))[0])) is not None:
            yield _table(item, f"An item of `{key}`", None)


def _as_section(annotation: object) -> type[Section] | None:
    return annotation if isinstance(annotation, type) and issubclass(annotation, Section) else None


def _table(section: type[Section], title: str, preset: Section | None) -> str:
    rows = [
        f"| `{name}` | {_cell(wanted(field))} | {_default(getattr(preset, name) if preset else field.get_default())} "
        f"| {_cell(meaning(section, name))} |"
        for name, field in section.model_fields.items()
        if _as_section(field.annotation) is None
    ]
    head = f"## {title}\n\n{' '.join((section.__doc__ or '').split())}"
    return (
        "\n".join([f"{head}\n\n| key | accepts | default | meaning |\n|---|---|---|---|", *rows])
        if rows
        else head
    )


def meaning(section: type[Section], name: str) -> str:
    """What a key means, as its section says, or the one that this section is made of."""
    origins = (origin for origin in section.__mro__ if issubclass(origin, Section))
    found = (origin.model_fields[name].description for origin in origins if name in origin.model_fields)
    return next((words for words in found if words), "")


def _default(value: object) -> str:
    if value is PydanticUndefined:
        return "required"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    if isinstance(value, tuple):
        return f"`[{', '.join(repr(item) for item in value)}]`"
    return f'`"{value}"`' if isinstance(value, str) else f"`{value}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def command_page() -> str:
    """Every command with its arguments, options and examples."""
    import typer

    from actfirst.cli.main import app

    intro = (
        "# Commands\n\n`actfirst COMMAND --help` prints the same. Exit code 2 says that the request was wrong, 1 that "
        "something failed on the way; stopped runs end with 130 (Ctrl-C) or 143 (SIGTERM, `run.deadline`)."
    )
    return "\n\n".join([intro, *_commands(typer.main.get_command(app), "actfirst")]) + "\n"


def _commands(command: Any, name: str) -> Iterator[str]:
    """A command and those below it. Typer brings its own click, so its classes are not named here."""
    below = getattr(command, "commands", None)
    if name != "actfirst":
        yield f"## `{name}`\n\n{_help(command.help or '')}{_parameters(command) if below is None else ''}"
    for part, inner in (below or {}).items():
        yield from _commands(inner, f"{name} {part}")


def _help(text: str) -> str:
    """Paragraphs; what follows a \\b alone on its line is shown as it is: examples."""
    shown = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        if "\b" in paragraph:
            lines = paragraph.replace("\b", "").strip("\n").splitlines()
            shown.append("```\n" + "\n".join(line.strip() for line in lines) + "\n```")
        else:
            shown.append(" ".join(paragraph.split()).replace("<", "&lt;"))
    return "\n\n".join(shown)


def _parameters(command: Any) -> str:
    rows = []
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        names = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
        names = names if is_option else f"`{_cell(parameter.metavar or parameter.name)}`"
        default = parameter.default
        said = default not in (None, "", False, (), []) and isinstance(default, str | int | float)
        more = " Required." if parameter.required else f" Default: `{default}`." if said else ""
        rows.append(f"| {names} | {_cell(parameter.help or '')}{more} |")
    return "\n".join(["\n\n| argument or option | meaning |\n|---|---|", *rows]) if rows else ""


def on_files(files: Any, config: Any) -> Any:
    """MkDocs: the pages that no file holds, and those whose file stands at the root of the project."""
    from mkdocs.structure.files import File

    pages = {"reference/recipe.md": recipe_page(), "reference/commands.md": command_page()}
    pages["security.md"] = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_post_page(output: str, page: Any, config: Any) -> str:
    """MkDocs: the site works without a network, so no page may load anything from elsewhere."""
    if found := _OUTSIDE.search(output):
        from mkdocs.exceptions import PluginError

        raise PluginError(f"{page.file.src_uri} loads something from outside: {found.group()}")
    return output
