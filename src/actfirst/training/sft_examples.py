"""From demonstrations to examples: trajectories are replayed, and prompts rendered exactly as a rollout renders them.

Each turn is shown in one mode, drawn by the shares among those that it can be shown in: a full response needs one with
reasoning, inverse dynamics a valid action and what it led to. Whole trajectories are held out, not turns of them.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from random import Random

from actfirst.config.config import Config
from actfirst.config.teacher_sections import SftDataSection, SftSection
from actfirst.environments.base import Environment, World
from actfirst.environments.registry import Kind, hosting, kind_of, open_world
from actfirst.errors import ConfigError, DataError, PromptTooLong
from actfirst.learning.sft import Example
from actfirst.policy.chat_template import Ending
from actfirst.policy.history import fit
from actfirst.policy.render import TemplateSet, read_templates
from actfirst.policy.tokens import PromptEncoder
from actfirst.records import Mode, Observation, Pair, TurnContext
from actfirst.references.build.workers import GivenUp, run_jobs
from actfirst.runs.lines import SftData
from actfirst.seeds import derive_uniform
from actfirst.training.sft_sources import Source, Trajectory, Written, action_text, full_response, read_source

_BLUNDER = 0.2  # share of strayings that are not possible
_SECONDS = 1800.0  # how long the replay of one trajectory may take in a worker process


@dataclass(frozen=True, slots=True)
class Lesson:
    """What a turn can be shown as. `action` is the right one, None where nobody knows a valid one; `response` is None
    where nobody gave reasons; `inferred`, of what came after the turn, is None where nothing can be."""

    action: str | None
    response: str | None
    inferred: str | None


@dataclass(frozen=True, slots=True)
class Shown:
    """One turn that was replayed: what was done led to `after`."""

    origin: str
    context: TurnContext
    lesson: Lesson
    after: Observation


@dataclass(frozen=True)
class Examples:
    """What is trained on, what is held out, and what each source gave."""

    train: list[Example]
    held_out: list[Example]
    data: tuple[SftData, ...]


def read_examples(
    config: Config, encoder: PromptEncoder, told: Callable[[int, int, str], None] = lambda done, of, more: None
) -> Examples:
    """All examples of a recipe, in an order that depends on the data alone."""
    settings = config.sft
    if not settings.data:
        raise ConfigError("sft.data is empty: name at least one source of demonstrations, see docs/teachers.md")
    kind, world = kind_of(config.environment), open_world(config.environment)
    maker = ExampleMaker(
        encoder,
        [
            read_templates(kind.prompts, order, config.environment.templates)
            for order in settings.prompts or (config.environment.prompts,)
        ],
        settings,
        config.rollout.generation.prompt_limit,
        Ending(config.rollout.generation.fast_reasoning),
        config.run.seed,
    )
    workers = (os.cpu_count() or 1) if hosting(config.environment).processes else 0
    for entry in settings.data:
        source = read_source(entry, kind, world)
        maker.begin()
        begin = partial(_replayer, kind, partial(open_world, config.environment))
        for number, replayed in enumerate(_replays(source, begin, workers), start=1):
            maker.add_trajectory(source, replayed)
            told(number, len(source.trajectories), source.name)
        for written in source.written:
            maker.add_written(source, written)
        maker.end(source)
    if not maker.train:
        counted = "; ".join(f"{one.source}: {one.dropped}" for one in maker.data)
        raise DataError(f"no example is left to train on ({counted}); loosen the filters of sft.data")
    return Examples(maker.train, maker.held_out, tuple(maker.data))


@dataclass
class ExampleMaker:
    """Turns what was shown into token ids, and counts what becomes of everything."""

    encoder: PromptEncoder
    templates: Sequence[TemplateSet]
    settings: SftSection
    prompt_limit: int
    fast_ending: Ending
    seed: int
    train: list[Example] = field(default_factory=list)
    held_out: list[Example] = field(default_factory=list)
    data: list[SftData] = field(default_factory=list)
    _kept: int = 0
    _modes: Counter[str] = field(default_factory=Counter)

    def begin(self) -> None:
        """Count anew, for the next source."""
        self._kept, self._modes = 0, Counter()

    def end(self, source: Source) -> None:
        """Keep what the source gave."""
        count = len(source.trajectories) or len(source.written)
        modes = {mode: self._modes[mode] for mode in sorted(self._modes)}
        self.data.append(
            SftData(
                source=source.name,
                trajectories=count,
                kept=self._kept,
                examples=modes,
                dropped=dict(source.dropped),
            )
        )

    def add_trajectory(self, source: Source, replayed: Replayed | GivenUp) -> None:
        wanted = source.settings
        if isinstance(replayed, GivenUp):
            source.dropped[replayed.reason] += 1
        elif wanted.success and not replayed.final.success:
            source.dropped["not successful when replayed"] += 1
        elif replayed.final.score < wanted.least_score:
            source.dropped["score too low when replayed"] += 1
        else:
            self._kept += 1
            for shown in replayed.turns():
                self._add(source, shown)

    def add_written(self, source: Source, written: Written) -> None:
        self._kept += 1
        prompt = self.encoder.encode_messages(written.messages)
        self._keep(source, written.origin, "written", prompt, written.response)

    def _add(self, source: Source, shown: Shown) -> None:
        mode = self._mode(shown)
        if mode is None:
            source.dropped["turns that no mode with a share can show"] += 1
            return
        after = shown.after.text if mode is Mode.INVERSE_DYNAMICS else None
        ending = Ending.OPEN if mode is Mode.FULL else self.fast_ending
        try:
            prompt = fit(
                self.encoder, self._templates(shown), mode, shown.context, self.prompt_limit, after, ending
            )
        except PromptTooLong:
            source.dropped["turns whose prompt is too long"] += 1
            return
        action = shown.lesson.inferred if mode is Mode.INVERSE_DYNAMICS else shown.lesson.action
        reasons = shown.lesson.response if mode is Mode.FULL else None
        response = reasons or action_text(action or "").removeprefix(ending.prefill)
        self._keep(source, shown.origin, mode.value, prompt.ids, response)

    def _keep(self, source: Source, origin: str, mode: str, prompt: Sequence[int], response: str) -> None:
        end = [] if self.encoder.end_id is None else [self.encoder.end_id]
        # A stored response that ended on its own shows its end mark; a chat's does not.
        ids = [*self.encoder.encode_output(response.removesuffix(self.encoder.decode(end))), *end]
        if self.settings.longest and len(prompt) + len(ids) > self.settings.longest:
            source.dropped["turns longer than sft.longest"] += 1
            return
        self._modes[mode] += 1
        held = derive_uniform(self.seed, "held out", origin) < self.settings.held_out
        (self.held_out if held else self.train).append(Example(array("I", prompt), array("I", ids), origin))

    def _templates(self, shown: Shown) -> TemplateSet:
        """One order of prompts for a whole trajectory."""
        if len(self.templates) == 1:
            return self.templates[0]
        return self.templates[int(derive_uniform(self.seed, "prompts", shown.origin) * len(self.templates))]

    def _mode(self, shown: Shown) -> Mode | None:
        """What the turn is shown as; an invalid action is shown by nothing."""
        lesson = shown.lesson
        shares = {
            Mode.FULL: self.settings.full if lesson.action and lesson.response else 0.0,
            Mode.NEXT_ACTION: self.settings.next_action if lesson.action else 0.0,
            Mode.INVERSE_DYNAMICS: self.settings.inverse_dynamics if lesson.inferred else 0.0,
        }
        place = derive_uniform(self.seed, "mode", shown.origin, shown.context.turn) * sum(shares.values())
        for mode, share in shares.items():
            if share and place < share:
                return mode
            place -= share
        return None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a trajectory showed, in parts that travel between processes: the turns are put together here."""

    origin: str
    instruction: str
    observations: tuple[Observation, ...]
    actions: tuple[str, ...]
    lessons: tuple[Lesson, ...]

    @property
    def final(self) -> Observation:
        return self.observations[-1]

    def turns(self) -> Iterator[Shown]:
        history: tuple[Pair, ...] = ()
        for place, (action, lesson) in enumerate(zip(self.actions, self.lessons, strict=True)):
            seen = self.observations[place]
            context = TurnContext(self.instruction, history, seen, place + 1)
            yield Shown(self.origin, context, lesson, self.observations[place + 1])
            history = (*history, Pair(seen.text, action))


@dataclass
class Replayer:
    """Replays trajectories in a world. One per process."""

    kind: Kind
    world: World
    environment: Environment

    def work(self, job: Trajectory) -> Replayed | GivenUp:
        instruction, seen = self.environment.reset(job.task)
        observations, actions, lessons = [seen], list[str](), list[Lesson]()
        history: tuple[Pair, ...] = ()
        walk = None if job.shown_by is None else _Walk(self.kind, job, job.shown_by)
        count = self.world.turn_limit if job.actions is None else len(job.actions)
        for place in range(count):
            if seen.done:
                break
            if job.observations and job.observations[place] != seen.text:
                return GivenUp("does not replay: an observation differs")
            context = TurnContext(instruction, history, seen, place + 1)
            action, lesson = walk.turn(context) if walk else self._given(job, place, context)
            actions.append(action)
            lessons.append(lesson)
            history = (*history, Pair(seen.text, action))
            seen = self.environment.step(action)
            observations.append(seen)
        return Replayed(job.origin, instruction, tuple(observations), tuple(actions), tuple(lessons))

    def _given(self, job: Trajectory, place: int, context: TurnContext) -> tuple[str, Lesson]:
        """The action of a list, with the response that was stored for it or the demonstrator's if it agrees."""
        assert job.actions is not None
        action = job.actions[place]
        response = job.responses[place] if job.responses else None
        demonstrator = self.kind.sources.demonstrator if job.reasoned else None
        if demonstrator is not None and (turn := demonstrator(context)).action == action:
            response = full_response(turn.reasoning, action)
        valid = self.kind.rules.valid(action, context.observation)
        known = action if valid else None
        return action, Lesson(known, response, known)

    def close(self) -> None:
        self.environment.close()


class _Walk:
    """The demonstrator's way through one task. What it does is what it shows, unless it strays: then it does anything
    admissible, or now and then what was possible earlier and is not now, as models do."""

    def __init__(self, kind: Kind, job: Trajectory, settings: SftDataSection) -> None:
        self._kind = kind
        self._settings = settings
        self._strays = settings.stray if job.strays else 0.0
        self._rng = Random(job.origin)
        self._earlier: set[str] = set()

    def turn(self, context: TurnContext) -> tuple[str, Lesson]:
        sources, settings, rng = self._kind.sources, self._settings, self._rng
        assert sources.demonstrator is not None
        right = sources.demonstrator(context)
        unlearned = right.stage in settings.unlearned
        shown = right
        if unlearned and rng.random() >= settings.learned:
            assert sources.novice is not None
            shown = sources.novice(context, rng)
        dynamics = not unlearned or rng.random() < settings.learned_dynamics
        action = self._astray(context) if rng.random() < self._strays else right.action
        valid = self._kind.rules.valid(action, context.observation)
        response = full_response(shown.reasoning, shown.action)
        at_once = self._hurried(context) if self._happens(settings.haste) else shown.action
        inferred = self._anything(context) if self._happens(settings.misread) else action
        return action, Lesson(at_once, response, inferred if dynamics and valid else None)

    def _happens(self, share: float) -> bool:
        """Draws nothing where nobody asks for it."""
        return share > 0.0 and self._rng.random() < share

    def _hurried(self, context: TurnContext) -> str:
        hasty = self._kind.sources.hasty
        return hasty(context, self._rng) if hasty else self._anything(context)

    def _astray(self, context: TurnContext) -> str:
        seen = context.observation
        self._earlier.update(seen.admissible)
        impossible = sorted(self._earlier.difference(seen.admissible))
        if impossible and self._rng.random() < _BLUNDER:
            return self._rng.choice(impossible)
        return self._anything(context)

    def _anything(self, context: TurnContext) -> str:
        return self._kind.walk(self._rng, context.instruction, context.observation)


def _replayer(kind: Kind, opener: Callable[[], World]) -> Replayer:
    world = opener()
    return Replayer(kind, world, world.open())


def _replays(source: Source, begin: Callable[[], Replayer], workers: int) -> Iterator[Replayed | GivenUp]:
    """In the order of the source, whichever worker was first."""
    if not source.trajectories:
        return
    places = {trajectory.origin: place for place, trajectory in enumerate(source.trajectories)}
    early: dict[int, Replayed | GivenUp] = {}
    due = 0
    for job, outcome in run_jobs(source.trajectories, begin, workers, _SECONDS):
        early[places[job.origin]] = outcome
        while due in early:
            yield early.pop(due)
            due += 1
