"""The exact prompts of a stored episode, rendered again by the code that made them.

A run stores of each prompt a digest alone. It tells whether what is rendered now, by this version of the program and
with the models and templates of today, is what was used then. Nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from threading import Lock

from actfirst.config.config import Config
from actfirst.config.load import resolve
from actfirst.environments.registry import kind_of
from actfirst.errors import ConfigError, PromptTooLong
from actfirst.models.folder import check_model
from actfirst.models.token_text import TokenText
from actfirst.policy.agent import prompt_for
from actfirst.policy.render import TemplateSet, read_templates
from actfirst.policy.tokens import PromptEncoder, open_encoder
from actfirst.reading import parse_object
from actfirst.records import Mode, Observation, Pair, TurnContext, digest
from actfirst.runs.episodes import EpisodeLine
from actfirst.runs.record import Record, parse
from actfirst.runs.run_folder import saved_config


class ShownPrompt(Record):
    """A prompt that was used in a turn, special tokens included. `exact` is None where the run stored no digest."""

    turn: int
    mode: Mode
    tokens: int
    text: str
    exact: bool | None


class Prompts:
    """Those of one run. Threads may share it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()  # an encoder serves one thread

    def of(self, line: bytes, *, evaluated: bool) -> list[ShownPrompt]:
        """All prompts of an episode, in order. Raises the error that says what is missing to render them."""
        episode = parse(parse_object(line), EpisodeLine, "the episode")
        if not episode.instruction:
            raise ConfigError(
                "this run did not store the task's instruction, so its prompts cannot be rendered again"
            )
        with self._lock:
            return list(self._shown(episode, evaluated))

    @cached_property
    def _config(self) -> Config:
        return resolve(saved_config(self._folder))

    @cached_property
    def _encoder(self) -> PromptEncoder:
        student = self._config.models.student
        model = check_model(student, "models.student")
        if model is None:
            raise ConfigError(f"the tokenizer of {student} is not on this machine")
        return open_encoder(model)

    @cached_property
    def _texts(self) -> TokenText:
        return self._encoder.texts()

    @cached_property
    def _templates(self) -> TemplateSet:
        section = self._config.environment
        return read_templates(kind_of(section).prompts, section.prompts, section.templates)

    def _shown(self, episode: EpisodeLine, evaluated: bool) -> Iterator[ShownPrompt]:
        limits = (self._config.evaluation if evaluated else self._config.rollout).generation
        history: tuple[Pair, ...] = ()
        for turn in episode.turns:
            seen = Observation(turn.observation, turn.admissible or (), turn.templates, turn.objects)
            context = TurnContext(episode.instruction, history, seen, turn.number)
            used = [(request.mode, request.prompt_digest) for request in turn.requests]
            used += [(Mode.FULL, turn.response.prompt_digest)] if turn.response else []
            for mode, stored in used:
                reference = (turn.reference_next or "") if mode is Mode.INVERSE_DYNAMICS else None
                try:
                    ids = prompt_for(self._encoder, self._templates, limits, mode, context, reference).ids
                except PromptTooLong:
                    continue
                yield ShownPrompt(
                    turn=turn.number,
                    mode=mode,
                    tokens=len(ids),
                    text=self._texts.text(ids),
                    exact=digest(ids) == stored if stored else None,
                )
            history = (*history, Pair(turn.observation, turn.action))
