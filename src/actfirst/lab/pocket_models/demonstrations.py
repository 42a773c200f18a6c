"""What the pocket models learn from: walks through pocket houses, and what a demonstrator would do at each turn.

Two demonstrators. The expert reasons from everything it has read. The sloppy one is the same expert with faults:
it forgets what it saw some turns ago, misreads the task, or does something else than it reasoned towards. Its
words stay coherent, so a model that imitates it has the skills and uses them badly, as a base model would.

Where a prompt asks for an action alone, there may be a third: who does not reason acts on what it saw last.

Contexts come from walks of mixed quality, so that demonstrations also show how to go on after mistakes. Every
transition of a walk is an example of inverse dynamics: no demonstrator is needed for that.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from random import Random

from actfirst.environments.alfworld.belief import kind_of, recall
from actfirst.environments.alfworld.instruction import Instruction, read_instruction
from actfirst.environments.pocket.catalogue import ROOMS
from actfirst.environments.pocket.kind import KIND
from actfirst.environments.pocket.layout import layouts
from actfirst.environments.pocket.world import PocketWorld
from actfirst.environments.solving import Demonstrated
from actfirst.lab.pocket_models.phrasing import reasoned_turn
from actfirst.lab.pocket_models.tokenizer import IM_END
from actfirst.learning.sft import Example
from actfirst.policy.history import fit
from actfirst.policy.parsing import ACTION, END_ACTION, END_THINK, THINK
from actfirst.policy.render import read_templates
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Mode, Observation, Pair, Task, TurnContext

Demonstrator = Callable[[TurnContext, Random], Demonstrated]

_KEPT = ("You pick up", "You move", "You clean", "You heat", "You cool", "You are carrying")
"""Observations that even the sloppy demonstrator remembers: they say what is in hand."""

_BLUNDER = 0.15  # how often walks that blunder at all do the impossible
_PER_WORLD = 24
_PER_WALK = 8


@dataclass(frozen=True, slots=True)
class Faults:
    """How often the sloppy demonstrator fails, per turn: to remember, to read the task, to do as it thought."""

    forget: float = 0.7
    misread: float = 0.6
    slip: float = 0.15


@dataclass(frozen=True, slots=True)
class Demonstrators:
    """Who shows full responses, and who shows what is done when an action is asked for without reasoning."""

    reasoned: Demonstrator
    hasty: Demonstrator


@dataclass(frozen=True, slots=True)
class Visit:
    """One turn of a walk: where it stood, what was done there, and what that led to."""

    context: TurnContext
    action: str
    after: Observation

    @property
    def possible(self) -> bool:
        return self.action in self.context.observation.admissible


@dataclass(frozen=True, slots=True)
class Shares:
    """How demonstrations divide into modes; what is left are full responses."""

    next_action: float = 0.1
    inverse_dynamics: float = 0.25

    def draw(self, rng: Random) -> Mode:
        place = rng.random()
        if place < self.next_action:
            return Mode.NEXT_ACTION
        return Mode.INVERSE_DYNAMICS if place < self.next_action + self.inverse_dynamics else Mode.FULL


def expert(context: TurnContext, rng: Random) -> Demonstrated:
    """The expert, without its variations of phrase: they would only be noise to a small model."""
    return reasoned_turn(context)


def sloppy(faults: Faults) -> Demonstrator:
    """The expert with faults. Its action is still admissible."""

    def turn(context: TurnContext, rng: Random) -> Demonstrated:
        seen = context
        if rng.random() < faults.forget:
            seen = _forgetful(seen, 1 if rng.random() < 0.8 else 3)
        if rng.random() < faults.misread:
            seen = _misread(seen)
        thought = reasoned_turn(seen)
        if rng.random() < faults.slip:
            return _slip(thought, rng.choice(context.observation.admissible))
        return thought

    return turn


def mixed(share: float, first: Demonstrator, second: Demonstrator) -> Demonstrator:
    """`first` in this share of turns, else `second`."""
    return lambda context, rng: (first if rng.random() < share else second)(context, rng)


def _forgetful(context: TurnContext, turns: int) -> TurnContext:
    """Only the last few turns, and what was done to the thing in hand."""
    old, recent = context.history[:-turns], context.history[-turns:]
    return replace(context, history=(*(p for p in old if p.observation.startswith(_KEPT)), *recent))


def _misread(context: TurnContext) -> TurnContext:
    """The task made easier where it can be, else about whatever object lies at hand."""
    goal = read_instruction(context.instruction)
    if goal.kind in ("clean", "heat", "cool", "pick2"):
        return replace(context, instruction=f"put a {goal.item} in {goal.place}.")
    belief = recall(context)
    near = [item for place in belief.here for item in sorted(belief.contents.get(place, ()))]
    known = [*near, *(item for items in belief.contents.values() for item in items)]
    kinds = [kind_of(item) for item in known]
    other = next((kind for kind in kinds if kind not in (goal.item, goal.place)), goal.item)
    return replace(context, instruction=_about(goal, other))


def _about(goal: Instruction, item: str) -> str:
    if goal.kind == "look":
        return f"look at {item} under the {goal.place}."
    return f"put a {item} in {goal.place}."


def _slip(thought: Demonstrated, action: str) -> Demonstrated:
    reasoning = thought.reasoning.removesuffix(f"{thought.action}.") + f"{action}."
    return Demonstrated(reasoning, action)


def walk(world: PocketWorld, task: Task, policy: Demonstrator, rng: Random) -> Iterator[Visit]:
    """One episode of a demonstrator, from a random place on the reference in a third of all cases.

    Now and then it tries what was possible earlier and is not now: models make that mistake and must go on.
    """
    environment = world.open()
    instruction, observation = environment.reset(task)
    plan = world.game(task).walkthrough
    given = rng.randrange(len(plan)) if rng.random() < 1 / 3 else 0
    blunder = rng.choice((0.0, 0.0, _BLUNDER))
    history: tuple[Pair, ...] = ()
    earlier: set[str] = set()
    for turn in range(1, world.turn_limit + 1):
        context = TurnContext(instruction, history, observation, turn)
        action = plan[turn - 1] if turn <= given else policy(context, rng).action
        earlier.update(observation.admissible)
        impossible = sorted(earlier - set(observation.admissible))
        if impossible and turn > given and rng.random() < blunder:
            action = rng.choice(impossible)
        after = environment.step(action)
        yield Visit(context, action, after)
        if after.done:
            return
        history = (*history, Pair(observation.text, action))
        observation = after


def houses(first: int, count: int, kitchens: float = 1.0) -> Iterator[tuple[PocketWorld, Task]]:
    """Training tasks `first` to `first + count` of an endless series, a few from each of many worlds.

    One world has few layouts, which a model would learn by heart. The default world, in which models are
    evaluated, is left out, and so is every house with the receptacles of one of its unseen layouts. Half of all
    tasks are set in kitchens; `kitchens` is the share of those that is kept.
    """
    number = first
    while count > 0:
        world = PocketWorld(seed=1 + number // _PER_WORLD, train=_PER_WORLD)
        task = world.tasks("train")[number % _PER_WORLD]
        number += 1
        receptacles = _receptacles(world, task)
        if "fridgetype" in receptacles and Random(f"kitchen {number}").random() >= kitchens:
            continue
        if receptacles not in _held_out():
            count -= 1
            yield world, task


def _receptacles(world: PocketWorld, task: Task) -> tuple[str, ...]:
    return tuple(sorted(world.game(task).receptacle_type.values()))


@cache
def _held_out() -> frozenset[tuple[str, ...]]:
    default = PocketWorld()
    unseen = [layouts(default.seed, default.size, room.name)[1] for room in ROOMS]
    return frozenset(
        tuple(sorted(f"{kind}type" for kind in map(str.lower, layout.types())))
        for room in unseen
        for layout in room
    )


def walks(first: int, count: int, kitchens: float = 1.0) -> Iterator[list[Visit]]:
    """Walks of mixed quality, one per task: the expert with more or fewer random actions, and sloppy ones."""
    for world, task in houses(first, count, kitchens):
        rng = Random(f"pocket walk {world.seed} {task.id}")
        faults = Faults(0.5, 0.4, slip=rng.choice((0.1, 0.5, 1.0)))
        policy = mixed(rng.choice((1.0, 1.0, 0.8, 0.5)), expert, sloppy(faults))
        yield list(walk(world, task, policy, rng))


def response_text(turn: Demonstrated) -> str:
    """A full response as the prompts ask for it, without its end mark."""
    return f"{THINK}\n{turn.reasoning}\n{END_THINK}\n\n{action_text(turn.action)}"


def action_text(action: str) -> str:
    return f"{ACTION}{action}{END_ACTION}"


class Encoder:
    """Writes visits as training pairs, with the prompts that the models will be given."""

    def __init__(self, prompts: PromptEncoder, prompt_limit: int) -> None:
        self._prompts = prompts
        self._limit = prompt_limit
        self._templates = read_templates(KIND.prompts)

    def example(self, visit: Visit, mode: Mode, by: Demonstrators, rng: Random) -> Example:
        """The visit in one mode: what the demonstrator would do, or what was done (inverse dynamics)."""
        after = visit.after.text if mode is Mode.INVERSE_DYNAMICS else None
        prompt = fit(self._prompts, self._templates, mode, visit.context, self._limit, after)
        if mode is Mode.FULL:
            response = response_text(by.reasoned(visit.context, rng))
        elif mode is Mode.NEXT_ACTION:
            response = action_text(by.hasty(visit.context, rng).action)
        else:
            response = action_text(visit.action)
        return Example(array("H", prompt.ids), array("H", self._prompts.encode_markup(response + IM_END)))


def demonstrations(
    first: int, count: int, by: Demonstrators, shares: Shares, encoder: Encoder, kitchens: float = 1.0
) -> Iterator[Example]:
    """A few training pairs of each walk, in a mixture of modes."""
    for number, visits in enumerate(walks(first, count, kitchens), start=first):
        rng = Random(f"pocket demonstrations {number}")
        for visit in rng.sample(visits, min(_PER_WALK, len(visits))):
            mode = shares.draw(rng)
            if mode is not Mode.INVERSE_DYNAMICS or visit.possible:
                yield encoder.example(visit, mode, by, rng)
