"""Which spellings of a command are admissible, and what is submitted for each.

The simulator's list of valid commands names objects so that no other object, in sight or not, has the same name, and
words some commands otherwise than its own templates (`go to hallway`, template `go OBJ`). A student sees the templates
and the names of the objects in sight (paper, appendix "Benchmarks"). So a listed command is admissible as it is listed,
and as the prompt spells it: its template with the names shown there. Nothing else is admissible.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from actfirst.environments.normalize import normalize
from actfirst.environments.scienceworld.simulator import ListedCommand, Template

OBJECT = "OBJ"


def spellings(
    listed: Sequence[ListedCommand], templates: Iterable[Template], shown: Mapping[int, str]
) -> dict[str, str]:
    """From each admissible spelling to the listed command that it stands for."""
    found = {command.text: command.text for command in listed}
    by_number: dict[int, list[str]] = defaultdict(list)
    for template in templates:
        by_number[template.number].append(template.text)
    names = {**_listed_names(listed), **shown}
    for command in listed:
        for form in by_number[command.template]:
            # `go OBJ` and `teleport OBJ` have one number; the first word tells them apart.
            if form.partition(" ")[0] == command.text.partition(" ")[0]:
                spelled = _fill(form, [names.get(number, "") for number in command.objects])
                if spelled:
                    found.setdefault(spelled, command.text)
    return found


def meant(action: str, admissible: Mapping[str, str]) -> str | None:
    """The listed command that an action stands for, whatever its case and spacing; None if there is none."""
    if action in admissible:
        return admissible[action]
    wanted = normalize(action)
    return next((listed for spelled, listed in admissible.items() if normalize(spelled) == wanted), None)


def _listed_names(listed: Iterable[ListedCommand]) -> dict[int, str]:
    """How the list names each object: what follows `look at`."""
    prefix = "look at "
    return {
        command.objects[0]: command.text.removeprefix(prefix)
        for command in listed
        if command.text.startswith(prefix) and len(command.objects) == 1
    }


def _fill(template: str, names: Sequence[str]) -> str:
    """The template with its objects in order; empty if a name or a place is missing."""
    pieces = template.split(OBJECT)
    if len(pieces) != len(names) + 1 or not all(names):
        return ""
    return "".join(piece + name for piece, name in zip(pieces, (*names, "")))
