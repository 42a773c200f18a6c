"""An episode as one line of episodes.jsonl: everything a report or a viewer needs, no token ids.

Episodes of evaluations are lines of evaluation-episodes.jsonl. Per-token figures of trained responses are in
`responses.py`. Fields with "None where unknown" are those that older versions did not write."""

from __future__ import annotations

from hashlib import blake2b

from actfirst.records import (
    ActionSource,
    Episode,
    FastAction,
    Mode,
    Response,
    StopReason,
    Task,
    Turn,
    Verdict,
    digest,
)
from actfirst.runs.lines import Who
from actfirst.runs.record import Record

MOST_ADMISSIBLE = 200
"""A longer list of admissible actions is not stored: ScienceWorld's have thousands, on every turn."""


def _stored(actions: tuple[str, ...]) -> tuple[str, ...] | None:
    return actions if len(actions) <= MOST_ADMISSIBLE else None


class FastActionLine(Record):
    """A fast action that was asked for. `action` is None where none could be parsed. `prompt_digest` names its exact
    prompt, which can be rendered again from the episode; "" where unknown."""

    mode: Mode = Mode.NEXT_ACTION
    prompt_tokens: int = 0
    tokens: int
    text: str = ""
    action: str | None = None
    version: int = 0
    prompt_digest: str = ""

    @classmethod
    def of(cls, request: FastAction) -> FastActionLine:
        return cls(
            mode=request.mode,
            prompt_tokens=request.prompt_tokens,
            tokens=request.token_count,
            text=request.text,
            action=request.action,
            version=request.version,
            prompt_digest=request.prompt_digest,
        )


class ResponseLine(Record):
    """A full response. `prompt_digest` is as of a fast action. `tokens` includes inserted ones; `requests` is 1 or 2.
    `reasoning_tokens` are the generated ones up to the end of reasoning. `started` and `ended` are seconds after the
    beginning of the episode. All three are None where unknown."""

    prompt_tokens: int = 0
    tokens: int = 0
    generated_tokens: int
    text: str
    action: str | None = None
    truncated: bool = False
    stop_reason: StopReason = StopReason.EOS
    requests: int = 1
    version: int = 0
    reasoning_tokens: int | None = None
    started: float | None = None
    ended: float | None = None
    prompt_digest: str = ""

    @classmethod
    def of(cls, response: Response, began: float) -> ResponseLine:
        timed = bool(began and response.ended)
        return cls(
            prompt_tokens=len(response.prompt_ids),
            tokens=len(response.token_ids),
            generated_tokens=sum(response.mask),
            text=response.text,
            action=response.action,
            truncated=response.truncated,
            stop_reason=response.stop_reason,
            requests=response.requests,
            version=response.version,
            reasoning_tokens=response.reasoning_tokens,
            started=round(response.started - began, 4) if timed else None,
            ended=round(response.ended - began, 4) if timed else None,
            prompt_digest=digest(response.prompt_ids),
        )


class TurnLine(Record):
    """One executed turn.

    `action` is what was submitted ("" where none could be parsed), `valid` whether it was admissible. Equal digests
    in `state` mean equal simulator states ("" where unknown). `started` are the seconds after the beginning of the
    episode at which its context was there, `seconds` those from then to the next observation. `response` is the full
    response of its context: the one that acted where the source is "think", else one that was generated beside it.
    `admissible` is None where unknown or longer than MOST_ADMISSIBLE; `templates` and `objects` are what prompts show
    in place of such lists. `reference_next` is what the reference saw next, on turns that it guided, and
    `reference_admissible` what it could do there, on the turn that left it.
    """

    number: int
    observation: str
    action: str
    valid: bool
    source: ActionSource
    verdict: Verdict
    state: str
    seconds: float
    requests: tuple[FastActionLine, ...] = ()
    response: ResponseLine | None = None
    started: float | None = None
    admissible: tuple[str, ...] | None = None
    templates: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    reference_next: str | None = None
    reference_admissible: tuple[str, ...] | None = None

    @classmethod
    def of(cls, turn: Turn, began: float) -> TurnLine:
        reference = turn.reference_next
        left = turn.verdict in (Verdict.DIVERGED, Verdict.INVALID_PROPOSAL)
        return cls(
            number=turn.number,
            observation=turn.observation,
            action=turn.action,
            valid=turn.valid,
            source=turn.source,
            verdict=turn.verdict,
            state=blake2b(turn.state.encode(), digest_size=8).hexdigest() if turn.state else "",
            seconds=round(turn.seconds, 4),
            requests=tuple(map(FastActionLine.of, turn.requests)),
            response=None if turn.response is None else ResponseLine.of(turn.response, began),
            started=round(turn.started - began, 4) if began else None,
            admissible=_stored(turn.admissible),
            templates=turn.templates,
            objects=turn.objects,
            reference_next=reference.text if reference else None,
            reference_admissible=_stored(reference.admissible) if reference and left else None,
        )


class EpisodeLine(Record):
    """One rollout.

    `success` and `score` are of the final observation (false and 0 where the environment never answered). `guided`:
    a reference was at hand, of `reference_length` steps. `error` says why it was cut short. `attempts` counts how
    often it was begun: again on a fresh environment where one failed. `seconds` are from reset to the last step,
    `ended` the training seconds at the last step, 0 where nobody looked at a clock. `instruction` is "" where unknown,
    `final_admissible` None where unknown or longer than MOST_ADMISSIBLE.
    """

    id: str
    batch: int
    task: Task
    success: bool
    score: float = 0.0
    guided: bool
    reference_length: int = 0
    error: str | None = None
    attempts: int = 1
    seconds: float
    ended: float = 0.0
    instruction: str = ""
    final_observation: str = ""
    final_admissible: tuple[str, ...] | None = None
    turns: tuple[TurnLine, ...]

    @classmethod
    def of(cls, episode: Episode) -> EpisodeLine:
        final = episode.final
        return cls(
            id=episode.id,
            batch=episode.batch,
            task=episode.task,
            success=final is not None and final.success,
            score=final.score if final is not None else 0.0,
            guided=episode.guided,
            reference_length=episode.reference_length,
            error=episode.error,
            attempts=episode.attempts,
            seconds=round(episode.seconds, 4),
            ended=round(episode.ended, 4),
            instruction=episode.instruction,
            final_observation=final.text if final is not None else "",
            final_admissible=_stored(final.admissible) if final is not None else None,
            turns=tuple(TurnLine.of(turn, episode.began) for turn in episode.turns),
        )

    def completions(self) -> list[float]:
        """When each transition was over, on the run's training clock: turns follow each other without a gap."""
        times, now = [], self.ended
        for turn in reversed(self.turns):
            times.append(now)
            now -= turn.seconds
        return times[::-1]


class EvaluationEpisodeLine(EpisodeLine):
    """One episode of an evaluation: of whom, after which update, with which evaluation seed.

    Its id is unique only together with these three.
    """

    who: Who
    update: int
    seed: int

    @classmethod
    def evaluated(cls, episode: Episode, who: Who, update: int, seed: int) -> EvaluationEpisodeLine:
        return cls.model_construct(**dict(EpisodeLine.of(episode)), who=who, update=update, seed=seed)
