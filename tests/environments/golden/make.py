"""Makes the transcripts beside this file: pocket games played by the real engine.

    python tests/environments/golden/make.py          (needs alfworld 0.4.2, textworld 1.7.0 and this package)

Each transcript holds its problem, so it stays valid when the generator changes. Two games are altered to have
what pocket houses lack and published games have: receptacles at one location, an object listed in two places, a
vessel with something in it, an object that is cool from the start, a start in front of a receptacle. One is a
script that brings out every description of an object.
"""

from __future__ import annotations

import json
import random
import re
from pathlib import Path
from typing import Any

from actfirst.environments.alfworld.game import GameFile
from actfirst.environments.pocket.generate import make_file
from actfirst.environments.pocket.layout import Layout, Receptacle, Size, identifier
from actfirst.environments.pocket.problem import House, Thing, problem_text

STEPS = 36
WEIGHTS = {
    "go": 3,
    "take": 5,
    "move": 2,
    "open": 5,
    "examine": 3,
    "look": 1,
    "inventory": 1,
    "help": 0.2,
    "close": 1,
}
RARE = 6
"""The weight of verbs that are seldom possible: use, heat, clean, cool, slice."""


SCRIPT = """
go to desk 1 / use desklamp 1 / look / go to countertop 1 / take knife 1 from countertop 1 / examine knife 1
slice apple 1 with knife 1 / slice apple 2 with knife 1 / go to cabinet 1 / open cabinet 1
slice egg 1 with knife 1 / go to sinkbasin 1 / clean knife 1 with sinkbasin 1 / examine knife 1
go to countertop 1 / move knife 1 to countertop 1 / take apple 1 from countertop 1 / examine apple 1
go to fridge 1 / cool apple 1 with fridge 1 / examine apple 1 / go to microwave 1
heat apple 1 with microwave 1 / examine apple 1 / go to sinkbasin 1 / clean apple 1 with sinkbasin 1
examine apple 1 / go to fridge 1 / cool apple 1 with fridge 1 / examine apple 1 / inventory / open fridge 1
move apple 1 to fridge 1 / inventory / go to countertop 1 / take apple 2 from countertop 1
go to sinkbasin 1 / clean apple 2 with sinkbasin 1 / examine apple 2 / move apple 2 to sinkbasin 1
examine sinkbasin 1 / go to cabinet 1 / take egg 1 from cabinet 1 / examine egg 1 / go to microwave 1
heat egg 1 with microwave 1 / examine egg 1 / go to sinkbasin 1 / clean egg 1 with sinkbasin 1
examine egg 1 / go to fridge 1 / cool egg 1 with fridge 1 / examine egg 1 / close fridge 1
examine fridge 1 / move egg 1 to fridge 1 / help
"""


def games() -> dict[str, tuple[GameFile, list[str]]]:
    """The games to play, with a script or none."""
    made = {f"pocket-{index}": (make_file(0, Size(), "train", index), []) for index in (1, 3, 5)}
    kitchen = Size(receptacles=(7, 7), objects=(12, 14))
    made["altered-heat"] = (altered(make_file(7, kitchen, "train", 3), start_at_receptacle=False), [])
    made["altered-cool"] = (altered(make_file(7, kitchen, "train", 4), start_at_receptacle=True), [])
    made["descriptions"] = (workshop(), [command.strip() for command in re.split(r"[/\n]", SCRIPT.strip())])
    return made


def workshop() -> GameFile:
    """A kitchen with a desk lamp, in which every property can be given to an apple and to an egg."""
    rng = random.Random("workshop")
    kinds = ("Cabinet", "CounterTop", "Desk", "Fridge", "Microwave", "SinkBasin")
    stands = tuple(
        Receptacle(identifier(rng, kind), kind, f"loc_bar_{n}_bar_1_bar_0_bar_30")
        for n, kind in enumerate(kinds)
    )
    home = {"Apple": 1, "Knife": 1, "Egg": 0, "DeskLamp": 2}
    things = tuple(
        Thing(identifier(rng, kind), kind, stands[home[kind]].id, stands[home[kind]].location)
        for kind in ("Apple", "Apple", "Knife", "Egg", "DeskLamp")
    )
    task = "put a cool egg in fridge."
    house = House(Layout("kitchen", stands), things, task, "cool", "Egg", "Fridge")
    model = make_file(0, Size(), "train", 0)
    grammar = re.sub(r"Your task is to: [^\"]*", f"Your task is to: {task}", model.grammar)
    # Eggs may lie in cabinets here, which the catalogue does not allow.
    return GameFile(model.pddl_domain, grammar, problem_text(house, "workshop"))


def altered(file: GameFile, start_at_receptacle: bool) -> GameFile:
    """The same house with the oddities of published games."""
    text = file.pddl_problem
    places = re.findall(r"\(receptacleAtLocation (\S+) (\S+)\)", text)
    (first, here), (second, there) = places[0], places[1]
    text = text.replace(f"(receptacleAtLocation {second} {there})", f"(receptacleAtLocation {second} {here})")
    text = text.replace(f" {there})\n", f" {here})\n")
    items = re.findall(r"\(inReceptacle (\S+) (\S+)\)", text)
    doubled = next(item for item, place in items if place not in (first, second))
    vessels = re.findall(r"\(isReceptacleObject (\S+)\)", text)
    inner = next(item for item, _ in items if item not in vessels)
    extra = [f"(inReceptacle {doubled} {first})", f"(objectAtLocation {doubled} {here})"]
    extra += [f"(inReceptacleObject {inner} {vessels[0]})"] if vessels else []
    extra += [f"(isCool {item})" for item in re.findall(r"\(coolable (\S+)\)", text)[:2]]
    text = text.replace("  (:init\n", "  (:init\n" + "".join(f"    {fact}\n" for fact in extra), 1)
    if start_at_receptacle:
        text = re.sub(r"\(atLocation agent1 \S+\)", f"(atLocation agent1 {here})", text, count=1)
    return GameFile(file.pddl_domain, file.grammar, text, walkthrough=file.walkthrough)


def choose(rng: random.Random, admissible: list[str]) -> str:
    if rng.random() < 0.05:
        return rng.choice(["dance", "go to nowhere 1", "", admissible[0].upper()])
    verbs = sorted({command.split()[0] for command in admissible})
    verb = rng.choices(verbs, [WEIGHTS.get(verb, RARE) for verb in verbs])[0]
    return rng.choice([command for command in admissible if command.split()[0] == verb])


def play(environment: Any, file: GameFile, script: list[str], path: Path, seed: str) -> dict[str, Any]:
    path.write_text(file.to_json(), encoding="utf-8")
    environment.load(str(path))
    state = environment.reset()
    rng = random.Random(seed)
    task = re.search(r'"Your task is to: ([^"]*)"', file.grammar)
    assert task is not None
    steps = [{"text": state.feedback, "admissible": state.admissible_commands, "won": state.won}]
    for turn in range(len(script) or STEPS):
        command = script[turn] if script else choose(rng, state.admissible_commands)
        state, _, _ = environment.step(command)
        steps.append(
            {
                "command": command,
                "text": state.feedback,
                "admissible": state.admissible_commands,
                "won": state.won,
            }
        )
    return {"task": task.group(1), "problem": file.pddl_problem, "steps": steps}


def write(transcript: dict[str, Any], path: Path) -> None:
    """One step per line: small, and readable in a diff."""
    steps = ",\n".join(json.dumps(step) for step in transcript["steps"])
    head = f'"task": {json.dumps(transcript["task"])},\n"problem": {json.dumps(transcript["problem"])}'
    path.write_text(f'{{{head},\n"steps": [\n{steps}\n]}}\n', encoding="utf-8")


def main() -> None:
    import tempfile

    import textworld
    from alfworld.agents.environment.alfred_tw_env import AlfredDemangler, AlfredInfos
    from textworld.envs.pddl import PddlEnv

    wanted = textworld.EnvInfos(won=True, admissible_commands=True)
    here = Path(__file__).parent
    with tempfile.TemporaryDirectory() as folder:
        for name, (file, script) in games().items():
            environment = AlfredInfos(AlfredDemangler(PddlEnv(wanted), shuffle=False))
            transcript = play(environment, file, script, Path(folder) / "game.tw-pddl", name)
            write(transcript, here / f"{name}.json")


if __name__ == "__main__":
    main()
