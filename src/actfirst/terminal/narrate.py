"""Shows a model at work: what it sees, what it thinks, what it does, and what comes of it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.console import Console
from rich.panel import Panel
from rich.rule import Rule
from rich.text import Text

from actfirst.environments.rules import TransitionRules
from actfirst.methods.acting import Acting, Actor, Ending, EpisodeTools, Move
from actfirst.policy.parsing import END_THINK, THINK
from actfirst.records import ActionSource, Episode, Observation, TurnContext, Verdict

_SOURCES = {
    ActionSource.THINK: "think, then act",
    ActionSource.NEXT_ACTION: "next-action prediction",
    ActionSource.INVERSE_DYNAMICS: "inverse dynamics",
    ActionSource.REFERENCE: "reference action",
}
_VERDICTS = {
    Verdict.ALIGNED: ("as in the reference", "green"),
    Verdict.DIVERGED: ("left the reference: guidance ends", "yellow"),
    Verdict.INVALID_PROPOSAL: ("invalid proposal: guidance ends", "yellow"),
}


@dataclass(frozen=True)
class Narrated(Acting):
    """A way of acting that says what another one does."""

    console: Console
    inner: Acting

    @property
    def needs_reference(self) -> bool:
        return self.inner.needs_reference

    @property
    def guides(self) -> bool:
        return self.inner.guides

    def begin(self, tools: EpisodeTools) -> Actor:
        return _Narrator(self.console, self.inner.begin(tools), tools.rules)


class _Narrator(Actor):
    def __init__(self, console: Console, inner: Actor, rules: TransitionRules) -> None:
        self._console = console
        self._inner = inner
        self._rules = rules

    def finished(self, turn: int) -> bool:
        return self._inner.finished(turn)

    async def act(self, context: TurnContext, seed: int) -> Move | Ending:
        if context.turn == 1:
            self._console.print(
                Panel(Text(context.instruction), title="task", title_align="left", border_style="cyan")
            )
        self._console.print(Rule(f"turn {context.turn}", style="dim", align="left"))
        self._console.print(Text(context.observation.text.strip()))
        started = time.monotonic()
        move = await self._inner.act(context, seed)
        if isinstance(move, Move):
            valid = self._rules.valid(move.action, context.observation)
            self._show(move, valid, time.monotonic() - started)
        return move

    def observed(self, context: TurnContext, move: Move, after: Observation) -> Verdict:
        verdict = self._inner.observed(context, move, after)
        if verdict in _VERDICTS:
            text, style = _VERDICTS[verdict]
            self._console.print(Text(f"  {text}", style))
        return verdict

    def _show(self, move: Move, valid: bool, seconds: float) -> None:
        if move.response is not None:
            thinking = reasoning(move.response.text)
            title = f"thinks ({sum(move.response.mask)} tokens with the action)"
            self._console.print(
                Panel(
                    Text(thinking, "dim"), title=title, title_align="left", border_style="dim", padding=(0, 1)
                )
            )
        style = "bold green" if valid else "bold red"
        shown = Text.assemble(("> ", "bold"), (move.action or "(no action)", style))
        if not valid:
            shown.append("  not admissible", "red")
        self._console.print(shown)
        self._console.print(Text(f"  {_SOURCES[move.source]}: {_cost(move)}, {seconds:.2f} s", "dim"))


def show_end(console: Console, episode: Episode) -> None:
    """How it went."""
    final = episode.final
    if final is not None:
        console.print(Rule(style="dim"))
        console.print(Text(final.text.strip()))
    tokens = sum(
        sum(request.token_count for request in turn.requests)
        + (sum(turn.response.mask) if turn.response is not None else 0)
        for turn in episode.turns
    )
    cost = f"{len(episode.turns)} turns, {tokens:,} tokens, {episode.seconds:.1f} s"
    if episode.error is not None:
        console.print(Text(f"failed: {episode.error} ({cost})", "bold red"))
    elif final is not None and final.success:
        console.print(Text(f"solved: {cost}", "bold green"))
    else:
        console.print(Text(f"not solved: {cost}", "bold red"))


def reasoning(text: str) -> str:
    """The reasoning of a full response; all of it where the response never ends its reasoning."""
    return text.partition(END_THINK)[0].replace(THINK, "").strip()


def _cost(move: Move) -> str:
    if move.response is not None:
        return f"{len(move.response.token_ids)} tokens after a prompt of {len(move.response.prompt_ids)}"
    if not move.requests:
        return "no tokens"
    return ", then ".join(
        f"{request.token_count} tokens after a prompt of {request.prompt_tokens}" for request in move.requests
    )
