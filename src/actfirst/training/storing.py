"""What a run stores for whoever looks at it later: trained responses token by token, and episodes of evaluations.

Everything is made and written by the run folder's own thread. How much of it is stored is bounded by the recipe.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from actfirst.config.sections import RunSection
from actfirst.models.token_text import TokenText
from actfirst.records import Episode, TurnSample
from actfirst.runs.episodes import EvaluationEpisodeLine
from actfirst.runs.lines import Who
from actfirst.runs.responses import TrainedResponseLine, drawn, rounded
from actfirst.runs.run_folder import EVALUATED, RESPONSES, RunFolder
from actfirst.seeds import derive_uniform


@dataclass(frozen=True)
class Storing:
    """`read_texts` gives the texts of token ids, `teacher` what the teacher said of a sample's tokens."""

    folder: RunFolder
    settings: RunSection
    read_texts: Callable[[], TokenText]
    teacher: Callable[[TurnSample], Sequence[float]]

    def trained(self, samples: Sequence[TurnSample], update: int) -> None:
        """The drawn part of the samples of an update."""
        if self.settings.keep_responses:
            shares = self.settings.updates - update + 1
            texts = self._texts  # made here: the tokenizer behind it serves one thread
            chosen = drawn(samples, self.settings.keep_responses)
            lines = (self._line(sample, update, texts) for sample in chosen)
            self.folder.later(lambda: self.folder.append_share(RESPONSES, lines, self._most, shares))

    def evaluated(self, who: Who, update: int, played: Sequence[tuple[Episode, int]], left: int) -> None:
        """The drawn part of the episodes of an evaluation, each with its seed; `left` evaluations are still to come."""

        def draw(one: tuple[Episode, int]) -> float:
            return derive_uniform(one[1], one[0].task.id, "kept")

        chosen = sorted(played, key=draw)[: self.settings.keep_evaluations]
        if chosen:
            lines = (EvaluationEpisodeLine.evaluated(episode, who, update, seed) for episode, seed in chosen)
            self.folder.later(lambda: self.folder.append_share(EVALUATED, lines, self._most, left + 1))

    @property
    def _most(self) -> int:
        return self.settings.keep_megabytes * 1_000_000

    @cached_property
    def _texts(self) -> TokenText:
        return self.read_texts()

    def _line(self, sample: TurnSample, update: int, texts: TokenText) -> TrainedResponseLine:
        return TrainedResponseLine(
            sample=sample.id,
            episode=sample.episode_id,
            turn=sample.turn,
            update=update,
            version=sample.version,
            prompt=texts.text(sample.prompt_ids),
            token_texts=tuple(texts.texts(sample.token_ids)),
            mask=sample.mask,
            student=rounded(sample.behaviour_logprobs),
            teacher=rounded(self.teacher(sample)),
            advantages=rounded(sample.advantages),
            weight=round(sample.weight, 4),
            alternatives=_alternatives(sample, texts),
        )


def _alternatives(sample: TurnSample, texts: TokenText) -> tuple[tuple[tuple[str, float], ...], ...]:
    """Of each token of a response, the texts and log-probs of those that the teacher found most likely."""
    others = sample.alternatives
    listed = tuple((texts.text((i,)), value) for i, value in zip(others.token_ids, rounded(others.logprobs)))
    each = len(listed) // max(1, len(sample.token_ids))
    return tuple(listed[at : at + each] for at in range(0, len(listed), max(1, each)))
