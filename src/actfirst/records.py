"""The records that flow through the system, one per stage, all frozen.

    Task -> Observation, Pair -> TurnContext -> Completion -> Response -> Turn -> Episode -> TurnSample

Nothing here computes, except `digest`, which names a prompt, and that what an environment says goes through the text
gate (`reading.clean`) when its record is made: no environment can say what no tokenizer or file takes. Token ids that
an engine returned are what the teacher scores and the learner trains on: no record is ever re-tokenised.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import blake2b

from actfirst.reading import clean


class Mode(StrEnum):
    """The three ways in which the same student is prompted (paper, appendix "Prompt Details")."""

    FULL = "full"
    NEXT_ACTION = "next_action"
    INVERSE_DYNAMICS = "inverse_dynamics"


class StopReason(StrEnum):
    """Why an engine stopped generating."""

    EOS = "eos"
    STOP_STRING = "stop_string"
    LENGTH = "length"


class ActionSource(StrEnum):
    """Who chose an executed action."""

    THINK = "think"
    NEXT_ACTION = "next_action"
    INVERSE_DYNAMICS = "inverse_dynamics"
    REFERENCE = "reference"


class Verdict(StrEnum):
    """What the transition check said of a guided turn; UNCHECKED where no guidance was active."""

    ALIGNED = "aligned"
    DIVERGED = "diverged"
    INVALID_PROPOSAL = "invalid_proposal"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Task:
    """One task instance of an environment. `id` is unique in its environment and stable across runs."""

    id: str
    split: str
    kind: str


@dataclass(frozen=True, slots=True)
class Observation:
    """What the environment shows after a reset or a step.

    `admissible` is the list that validates actions. `templates` and `objects` are the separate action
    information of environments whose admissible list is too long for a prompt. `score` is the best score
    reached so far, in [0, 100]. `state` identifies the simulator state (equal strings mean equal sets of
    facts); it is empty where an environment cannot tell, and never reaches a prompt.
    """

    text: str
    admissible: tuple[str, ...]
    templates: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    done: bool = False
    success: bool = False
    score: float = 0.0
    state: str = ""

    def __post_init__(self) -> None:
        said = "".join((self.text, *self.admissible, *self.templates, *self.objects))
        if clean(said) is not said:
            object.__setattr__(self, "text", clean(self.text))
            for name in ("admissible", "templates", "objects"):
                object.__setattr__(self, name, tuple(map(clean, getattr(self, name))))


@dataclass(frozen=True, slots=True)
class Pair:
    """One executed turn of a history: what was seen and what was submitted. Never reasoning."""

    observation: str
    action: str


@dataclass(frozen=True, slots=True)
class TurnContext:
    """An immutable snapshot of c_t = q + h_t + o_t. `turn` counts from 1; `history` is whole, never cut."""

    instruction: str
    history: tuple[Pair, ...]
    observation: Observation
    turn: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "instruction", clean(self.instruction))


@dataclass(frozen=True, slots=True)
class ReferenceStep:
    """One transition of a reference trajectory. `action` is for the checks only: no prompt ever holds it."""

    action: str
    observation: Observation


@dataclass(frozen=True, slots=True)
class Reference:
    """An offline reference trajectory of one task: its first observation and what each action led to.

    `reliable` is False where repeated replays of the same actions did not all lead to the same transitions.
    """

    task_id: str
    initial: Observation
    steps: tuple[ReferenceStep, ...]
    source: str
    score: float
    reliable: bool = True


@dataclass(frozen=True, slots=True)
class Completion:
    """What an engine returned for one request.

    `logprobs` are those of the distribution that was actually sampled. `version` is the policy version of the
    weights that generated every token of it.
    """

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    stop_reason: StopReason
    version: int


def digest(ids: Sequence[int]) -> str:
    """Names token ids: equal digests mean equal ids."""
    return blake2b(array("q", ids).tobytes(), digest_size=8).hexdigest()


@dataclass(frozen=True, slots=True)
class Response:
    """A full think-then-act response: one or two completions and what was inserted between them.

    `mask` is 1 at tokens that the model generated and 0 at inserted ones; `logprobs` is 0.0 there.
    `action` is None when the response is truncated or holds no well-formed action field. `reasoning_tokens` are the
    generated tokens up to and including the end of reasoning. `started` and `ended` are when it was asked for and when
    it was complete, on the monotonic clock of the process; 0 where nobody looked at one.
    """

    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    mask: tuple[int, ...]
    text: str
    action: str | None
    truncated: bool
    stop_reason: StopReason
    requests: int
    version: int
    reasoning_tokens: int = 0
    started: float = field(default=0.0, compare=False)
    ended: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class FastAction:
    """An action-only completion and what was parsed from it (None: no well-formed action field).

    `prompt_digest` is that of its prompt's ids.
    """

    mode: Mode
    prompt_tokens: int
    token_count: int
    text: str
    action: str | None
    version: int
    prompt_digest: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    """One executed turn of an episode. `requests` lists the fast-action requests made for it, in order.

    `response` is the full response of its context, whether it acted or was generated beside. `started` is on the
    monotonic clock of the process. `admissible`, `templates` and `objects` are those of its observation.
    `reference_next` is what the reference saw next, where the turn was guided by it.
    """

    number: int
    observation: str
    action: str
    source: ActionSource
    valid: bool
    verdict: Verdict
    requests: tuple[FastAction, ...]
    response: Response | None
    state: str
    seconds: float
    started: float = 0.0
    admissible: tuple[str, ...] = ()
    templates: tuple[str, ...] = ()
    objects: tuple[str, ...] = ()
    reference_next: Observation | None = None


@dataclass(frozen=True, slots=True)
class Episode:
    """One rollout of one task. `error` is None unless the episode was cut short by a recorded failure.

    `guided` says that a reference was to be followed. `unexecuted` are fast actions after which the actor ended
    the rollout instead of acting. `ended` is when the last step was over, on the clock of whoever collected it (a
    run's training seconds); 0 where nobody looked at one. `began` is when it was reset, on the monotonic clock of the
    process. `attempts` counts how often it was begun: again where an environment failed. `instruction` is empty where
    the environment never gave one.
    """

    id: str
    task: Task
    batch: int
    turns: tuple[Turn, ...]
    final: Observation | None
    guided: bool
    reference_length: int
    seconds: float
    error: str | None = None
    unexecuted: tuple[FastAction, ...] = ()
    ended: float = 0.0
    attempts: int = 1
    began: float = 0.0
    instruction: str = ""


@dataclass(frozen=True, slots=True)
class Alternatives:
    """The tokens that a teacher found most likely, equally many at each place of a response, the likeliest first."""

    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Scores:
    """What a teacher says of a response: one log-prob per token, and what it would rather have said if asked."""

    logprobs: tuple[float, ...]
    alternatives: Alternatives = Alternatives()


@dataclass(frozen=True, slots=True)
class TurnSample:
    """What the learner sees: one full response with everything the loss needs, and nothing of its origin
    but identifiers.

    The four response streams have equal length; `mask` is 0 at inserted tokens. `advantages` come from the method's
    objective. `weight` multiplies the response's loss (1.0 in the paper). `anchor_logprobs` are those of the frozen
    model to which the learner keeps the policy close, or empty. `alternatives` are for whoever looks: no loss reads
    them.
    """

    id: str
    episode_id: str
    task_id: str
    turn: int
    prompt_ids: tuple[int, ...]
    token_ids: tuple[int, ...]
    mask: tuple[int, ...]
    behaviour_logprobs: tuple[float, ...]
    advantages: tuple[float, ...]
    version: int
    weight: float = 1.0
    anchor_logprobs: tuple[float, ...] = ()
    alternatives: Alternatives = Alternatives()


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """What one update reports. `advantage` is the mean over supervised tokens; of an update in several optimiser
    steps, `loss` and `grad_norm` are means over steps."""

    loss: float
    advantage: float
    grad_norm: float
    clip_fraction: float
    tokens: int
    supervised_tokens: int
    samples: int
    seconds: float
    extra: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EngineStats:
    """Counters since the engine started, and what is in it now.

    `prefilled_tokens` were computed, `cached_tokens` taken from the prefix cache instead; the part of both that
    fast requests had is given beside them. `drafted_tokens` were verified, `accepted_tokens` of them emitted.
    `paused` counts how often a full response made room for a fast action. `fast_seconds` and `full_seconds` are
    the time that generations of each class spent in the engine from admission to their end.
    """

    requests: int
    prefilled_tokens: int
    cached_tokens: int
    generated_tokens: int
    scored_tokens: int
    steps: int
    busy_seconds: float
    running: int
    waiting: int
    fast_prefilled_tokens: int = 0
    fast_cached_tokens: int = 0
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    paused: int = 0
    fast_ended: int = 0
    fast_seconds: float = 0.0
    full_ended: int = 0
    full_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Probe:
    """What the latest probe of rollout depth found: after how many updates, and the smoothed depth since."""

    update: int
    depth: float
