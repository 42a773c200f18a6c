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

from actfirst.config.config import Config
from actfirst.config.teacher_sections import SftSection
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

_SECONDS = 1800.0  # how long the replay of one trajectory may take in a worker process


@dataclass(frozen=True, slots=True)
class Shown:
    """One turn that was replayed. `after` is what the action led to; `response` None where nobody gave reasons."""

    origin: str
    context: TurnContext
    action: str
    valid: bool
    response: str | None
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
        read_templates(kind.prompts),
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
    templates: TemplateSet
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
            prompt = fit(self.encoder, self.templates, mode, shown.context, self.prompt_limit, after, ending)
        except PromptTooLong:
            source.dropped["turns whose prompt is too long"] += 1
            return
        response = (
            shown.response if mode is Mode.FULL else action_text(shown.action).removeprefix(ending.prefill)
        )
        assert response is not None
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

    def _mode(self, shown: Shown) -> Mode | None:
        """What the turn is shown as; an invalid action is shown by nothing."""
        if not shown.valid:
            return None
        shares = {
            Mode.FULL: self.settings.full if shown.response is not None else 0.0,
            Mode.NEXT_ACTION: self.settings.next_action,
            Mode.INVERSE_DYNAMICS: self.settings.inverse_dynamics,
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
    valid: tuple[bool, ...]
    responses: tuple[str | None, ...]

    @property
    def final(self) -> Observation:
        return self.observations[-1]

    def turns(self) -> Iterator[Shown]:
        history: tuple[Pair, ...] = ()
        for place, action in enumerate(self.actions):
            seen = self.observations[place]
            context = TurnContext(self.instruction, history, seen, place + 1)
            yield Shown(
                self.origin,
                context,
                action,
                self.valid[place],
                self.responses[place],
                self.observations[place + 1],
            )
            history = (*history, Pair(seen.text, action))


@dataclass
class Replayer:
    """Replays trajectories in a world. One per process."""

    kind: Kind
    world: World
    environment: Environment

    def work(self, job: Trajectory) -> Replayed | GivenUp:
        instruction, seen = self.environment.reset(job.task)
        observations, actions, valid, responses = [seen], list[str](), list[bool](), list[str | None]()
        history: tuple[Pair, ...] = ()
        count = self.world.turn_limit if job.actions is None else len(job.actions)
        for place in range(count):
            if seen.done:
                break
            if job.observations and job.observations[place] != seen.text:
                return GivenUp("does not replay: an observation differs")
            context = TurnContext(instruction, history, seen, place + 1)
            action, response = self._choose(job, place, context)
            actions.append(action)
            responses.append(response)
            valid.append(self.kind.rules.valid(action, seen))
            history = (*history, Pair(seen.text, action))
            seen = self.environment.step(action)
            observations.append(seen)
        return Replayed(
            job.origin, instruction, tuple(observations), tuple(actions), tuple(valid), tuple(responses)
        )

    def _choose(self, job: Trajectory, place: int, context: TurnContext) -> tuple[str, str | None]:
        stored = job.responses[place] if job.responses else None
        demonstrator = self.kind.sources.demonstrator if job.reasoned else None
        if job.actions is None or demonstrator is not None:
            assert demonstrator is not None
            turn = demonstrator(context)
            if job.actions is None or turn.action == job.actions[place]:
                return turn.action, full_response(turn.reasoning, turn.action)
        assert job.actions is not None
        return job.actions[place], stored

    def close(self) -> None:
        self.environment.close()


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
