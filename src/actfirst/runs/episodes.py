"""An episode as one line of episodes.jsonl: everything a report or a viewer needs, no token ids.

id, batch            who it is: the rollout batch counts from 0
task                 {id, split, kind}
success, score       of the final observation (false and 0 where the environment never answered)
guided               whether a reference was at hand; reference_length: how many steps it had
error                why the episode was cut short, or null
attempts             how often it was begun: again on a fresh environment where one failed
seconds              from reset to the last step; ended: training seconds at the last step
final_observation    what the last step led to ("" where the environment never answered)
turns                in order; each:
  number             counts from 1
  observation        what the agent saw before it acted
  action             what was submitted ("" where none could be parsed); valid: whether it was admissible
  source             think | next_action | inverse_dynamics | reference
  verdict            aligned | diverged | invalid_proposal | unchecked
  state              a digest of the simulator state: equal digests mean equal states ("" where unknown)
  seconds            from context to next observation
  requests           fast actions asked for, in order: {mode, prompt_tokens, tokens, text, action, version}
  response           the full response, or null:
    prompt_tokens, tokens (inserted ones included), generated_tokens, text, action (null: none), truncated,
    stop_reason, requests (1 or 2), version
"""

from __future__ import annotations

from hashlib import blake2b

from actfirst.records import Episode, FastAction, Response, Turn


def episode_to_json(episode: Episode) -> dict[str, object]:
    """The record of one episode; the module says what each field means."""
    return {
        "id": episode.id,
        "batch": episode.batch,
        "task": {"id": episode.task.id, "split": episode.task.split, "kind": episode.task.kind},
        "success": episode.final is not None and episode.final.success,
        "score": episode.final.score if episode.final is not None else 0.0,
        "guided": episode.guided,
        "reference_length": episode.reference_length,
        "error": episode.error,
        "attempts": episode.attempts,
        "seconds": _seconds(episode.seconds),
        "ended": _seconds(episode.ended),
        "final_observation": episode.final.text if episode.final is not None else "",
        "turns": [_turn(turn) for turn in episode.turns],
    }


def _turn(turn: Turn) -> dict[str, object]:
    return {
        "number": turn.number,
        "observation": turn.observation,
        "action": turn.action,
        "valid": turn.valid,
        "source": turn.source.value,
        "verdict": turn.verdict.value,
        "state": blake2b(turn.state.encode(), digest_size=8).hexdigest() if turn.state else "",
        "seconds": _seconds(turn.seconds),
        "requests": [_fast_action(request) for request in turn.requests],
        "response": None if turn.response is None else _response(turn.response),
    }


def _fast_action(request: FastAction) -> dict[str, object]:
    return {
        "mode": request.mode.value,
        "prompt_tokens": request.prompt_tokens,
        "tokens": request.token_count,
        "text": request.text,
        "action": request.action,
        "version": request.version,
    }


def _response(response: Response) -> dict[str, object]:
    return {
        "prompt_tokens": len(response.prompt_ids),
        "tokens": len(response.token_ids),
        "generated_tokens": sum(response.mask),
        "text": response.text,
        "action": response.action,
        "truncated": response.truncated,
        "stop_reason": response.stop_reason.value,
        "requests": response.requests,
        "version": response.version,
    }


def _seconds(value: float) -> float:
    return round(value, 4)
