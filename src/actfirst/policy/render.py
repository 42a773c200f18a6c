"""Fills prompt templates from a snapshot of a turn. There are two orders, `environment.prompts`.

`paper`: the templates of the paper's appendix "Prompt Details" are data files of the environments, `<mode>.txt`,
character by character as the paper prints them. The paper does not print the no-history forms
(`<mode>_no_history.txt`): they leave out the history sentence and the step number, and change nothing else. Nor does it
print how lists look: `forms.toml` beside them says it.

`growing`: the paper counts the steps before the history, so the prompts of two turns differ from there on, and a model
computes the history again in every turn. Here the same sentences stand in another order: task, history, the current
observation in the form of a pair that has no action yet, then what is new in each turn (step, actions), and the text of
the mode last. The next turn's prompt begins with this one's up to the end of the current observation, and the prompts
of one turn differ in the mode's text alone.

Only `render_inverse_dynamics` takes a reference next observation, and it takes its text alone: reference
actions, the reference's admissible actions and simulator states have no way into a prompt. Which pairs of the
history are retained is decided in `actfirst.policy.history`; tokens are the business of
`actfirst.policy.tokens`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from importlib.resources.abc import Traversable
from pathlib import Path

from actfirst.config.base import Section
from actfirst.environments.base import PromptForms, PromptOrder
from actfirst.errors import ConfigError
from actfirst.reading import parse_toml
from actfirst.records import Mode, Observation, Pair, TurnContext

_HISTORY, _REFERENCE = "action_history", "reference_next_observation"
_GENERAL = (
    "task_description",
    "step_count",
    "history_length",
    _HISTORY,
    "current_step",
    "current_observation",
)
_CUT = 8
_GROWING_END = "\n[Observation {current_step}: '{current_observation}'"
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@dataclass(frozen=True, slots=True)
class Template:
    """A template cut at its placeholders: literal text at even places, placeholder names at odd ones.

    Values are put between the literals and never looked at again, so braces in them mean nothing.
    """

    parts: tuple[str, ...]

    @property
    def text(self) -> str:
        return "".join(f"{{{part}}}" if place % 2 else part for place, part in enumerate(self.parts))

    @property
    def placeholders(self) -> tuple[str, ...]:
        return self.parts[1::2]

    def fill(self, values: Mapping[str, str]) -> str:
        return "".join(values[part] if place % 2 else part for place, part in enumerate(self.parts))

    def around(self, hole: str, values: Mapping[str, str]) -> tuple[str, str]:
        """The filled text before and after the placeholder `hole`, which needs no value."""
        place = 2 * self.placeholders.index(hole) + 1
        before, after = Template(self.parts[:place]), Template(self.parts[place + 1 :])
        return before.fill(values), after.fill(values)


class ListForm(Section):
    """How a list stands in place of its placeholder: `{}` is an item."""

    item: str = "'{}'"
    separator: str = ", "

    def shown(self, items: Iterable[str]) -> str:
        return self.separator.join(self.item.replace("{}", item, 1) for item in items)


_PLAIN = ListForm()


@dataclass(frozen=True, slots=True)
class TemplateSet:
    """The templates of one environment, its lists by placeholder, and its prompt forms for the rest.

    `cut` is how many pairs of the history are left out at once, at most, if a prompt is too long (`history.py`).
    """

    with_history: Mapping[Mode, Template]
    without_history: Mapping[Mode, Template]
    lists: Mapping[str, ListForm]
    forms: PromptForms
    cut: int = 1


def render(templates: TemplateSet, mode: Mode, context: TurnContext, retained: int) -> str:
    """The user message of a full or next-action request that keeps the newest `retained` pairs."""
    if mode is Mode.INVERSE_DYNAMICS:
        raise ValueError("an inverse-dynamics prompt needs a reference: use render_inverse_dynamics")
    return _template(templates, mode, retained).fill(_values(templates, context, retained))


def render_inverse_dynamics(
    templates: TemplateSet, context: TurnContext, retained: int, reference_observation: str
) -> str:
    """The user message of an inverse-dynamics request: the only prompt that shows the reference."""
    values = _values(templates, context, retained)
    values[_REFERENCE] = templates.forms.shown_reference(reference_observation)
    return _template(templates, Mode.INVERSE_DYNAMICS, retained).fill(values)


def render_around(
    templates: TemplateSet,
    mode: Mode,
    context: TurnContext,
    retained: int,
    reference_observation: str | None,
    mark: Callable[[str], str] = str,
) -> tuple[str, str]:
    """What stands before and after the pairs in the message of any mode, for those who know the pairs already.

    `reference_observation` is for inverse dynamics alone. Without pairs, the message stands before. Every value passes
    through `mark`, which can tell it from our own text.
    """
    values = _other_values(templates, context, retained)
    if reference_observation is not None:
        values[_REFERENCE] = templates.forms.shown_reference(reference_observation)
    marked = {name: mark(value) for name, value in values.items()}
    if not retained:
        return templates.without_history[mode].fill({**marked, _HISTORY: ""}), ""
    return templates.with_history[mode].around(_HISTORY, marked)


def pair_text(number: int, pair: Pair) -> str:
    """One executed turn of the history. `number` is its absolute step, so its text never changes."""
    return f"\n[Observation {number}: '{pair.observation}', Action {number}: '{pair.action}']"


def _template(templates: TemplateSet, mode: Mode, retained: int) -> Template:
    return templates.with_history[mode] if retained else templates.without_history[mode]


def _values(templates: TemplateSet, context: TurnContext, retained: int) -> dict[str, str]:
    dropped = len(context.history) - retained
    if retained < 0 or dropped < 0:
        raise ValueError(f"cannot retain {retained} pairs of a history of {len(context.history)}")
    pairs = enumerate(context.history[dropped:], start=dropped + 1)
    values = _other_values(templates, context, retained)
    values[_HISTORY] = "".join(pair_text(number, pair) for number, pair in pairs)
    return values


def _other_values(templates: TemplateSet, context: TurnContext, retained: int) -> dict[str, str]:
    actions = templates.forms.action_values(context.observation)
    return {
        "task_description": context.instruction,
        "step_count": str(context.turn - 1),
        "history_length": str(retained),
        "current_step": str(context.turn),
        "current_observation": context.observation.text,
        **{
            name: value if isinstance(value, str) else templates.lists.get(name, _PLAIN).shown(value)
            for name, value in actions.items()
        },
    }


def read_templates(forms: PromptForms, order: PromptOrder = "paper", folder: str = "") -> TemplateSet:
    """The templates of an environment's prompts in one of the two orders, or those of a folder in their place. Each is
    checked: ConfigError names the file and the placeholder that is wrong."""
    if folder:
        forms = replace(forms, folder=_own_folder(folder))
    lists = _list_forms(forms.folder / "forms.toml")
    shared = {*_GENERAL, *forms.action_values(Observation("", ()))}
    if order == "growing":
        growing = _growing(forms.folder / "growing", shared)
        return TemplateSet(growing, growing, lists, forms, cut=_CUT)

    def read(mode: Mode, suffix: str, history: set[str]) -> Template:
        reference = _shown(mode)
        known = (shared | history | reference) - ({_HISTORY} - history)
        return _read(forms.folder / f"{mode.value}{suffix}.txt", known, history | reference)

    with_history = {mode: read(mode, "", {_HISTORY}) for mode in Mode}
    without = {mode: read(mode, "_no_history", set()) for mode in Mode}
    return TemplateSet(with_history, without, lists, forms)


def _own_folder(name: str) -> Path:
    folder = Path(name).expanduser()
    if not folder.is_dir():
        raise ConfigError(
            f"environment.templates = {name!r}: there is no such folder; `actfirst envs templates` writes one to begin "
            "with"
        )
    return folder


def _shown(mode: Mode) -> set[str]:
    """The placeholder that inverse dynamics alone has, and needs."""
    return {_REFERENCE} if mode is Mode.INVERSE_DYNAMICS else set()


def _growing(folder: Traversable, shared: set[str]) -> dict[Mode, Template]:
    if not folder.is_dir():
        raise ConfigError(
            f'environment.prompts = "growing": there are no such prompts ({folder} is missing); '
            'set environment.prompts = "paper", or write them (docs/environments.md)'
        )
    turn = _read(folder / "turn.txt", shared, {_HISTORY})
    before = turn.placeholders[: turn.placeholders.index(_HISTORY)]
    if changing := [name for name in before if name != "task_description"]:
        raise ConfigError(
            f"{folder / 'turn.txt'}: {{{changing[0]}}} changes from turn to turn, so a prompt would not extend the one "
            f"before; put it after {{{_HISTORY}}}"
        )
    if f"{{{_HISTORY}}}{_GROWING_END}" not in turn.text:
        raise ConfigError(
            f"{folder / 'turn.txt'}: the current observation must follow {{{_HISTORY}}} as a pair that has no action "
            f"yet, or a prompt would not extend the one before; write {_GROWING_END.strip()!r} on the next line"
        )
    alone = shared - {_HISTORY}
    modes = {mode: _read(folder / f"{mode.value}.txt", alone | _shown(mode), _shown(mode)) for mode in Mode}
    return {mode: _parse(f"{turn.text}\n\n{template.text}") for mode, template in modes.items()}


def _read(file: Traversable, known: set[str], needed: set[str]) -> Template:
    """A template that has the placeholders it needs, once, and none that is not known."""
    try:
        template = _parse(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: this template of the prompts cannot be read: {error}") from error
    for name in template.placeholders:
        if name not in known:
            names = ", ".join(sorted(known))
            raise ConfigError(f"{file}: there is no placeholder {{{name}}} in this template; known are {names}")
    for name in sorted(needed):
        if name not in template.placeholders:
            raise ConfigError(f"{file}: the template lacks {{{name}}}; put it where its text belongs")
        if template.placeholders.count(name) > 1:
            raise ConfigError(f"{file}: {{{name}}} stands there more than once; keep one")
    return template


def _parse(text: str) -> Template:
    return Template(tuple(_PLACEHOLDER.split(text)))


def _list_forms(file: Traversable) -> dict[str, ListForm]:
    if not file.is_file():
        return {}
    try:
        tables = parse_toml(file.read_text(encoding="utf-8"))
        return {name: ListForm.model_validate(table) for name, table in tables.items()}
    except ValueError as error:
        raise ConfigError(
            f"{file}: {error}; a table there has a placeholder's name, item and separator"
        ) from error
