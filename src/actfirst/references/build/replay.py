"""Replays an action list in an environment and caches what it showed: this is what a reference is.

Paper, "Reference Trajectories": selected action sequences are replayed offline under the training environment
configuration, and the initial and subsequent observations are kept. `replay` executes a list as it stands; `try_out`
makes the best of somebody else's list: it words actions as the environment lists them, leaves out what is not valid
(a guided rollout could not follow it there), and ends where the best score is reached.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from actfirst.environments.rule_table import TransitionRules
from actfirst.environments.normalize import normalize
from actfirst.environments.base import Environment
from actfirst.errors import ReferenceStoreError
from actfirst.records import Observation, Reference, ReferenceStep, Task
from actfirst.references.build.candidates import Candidate

Rewrite = Callable[[str, Observation], Iterator[str]]
"""Other wordings of an action that is not valid where the observation was made; the first valid one is taken."""


def replay(environment: Environment, task: Task, actions: Sequence[str], source: str) -> Reference:
    """Execute `actions` from a fresh reset. Actions after termination are an error of the list."""
    _, initial = environment.reset(task)
    steps: list[ReferenceStep] = []
    for number, action in enumerate(actions, start=1):
        if steps and steps[-1].observation.done:
            raise ReferenceStoreError(
                f"reference of task {task.id} goes on after the episode ended at action {number - 1} of "
                f"{len(actions)}; cut the list there"
            )
        steps.append(ReferenceStep(action, environment.step(action)))
    return _reference(task, initial, steps, source)


def try_out(
    environment: Environment, task: Task, candidate: Candidate, rules: TransitionRules, rewrite: Rewrite
) -> Reference:
    """What a candidate comes to: only valid actions, up to the one that reached its best score."""
    _, initial = environment.reset(task)
    steps: list[ReferenceStep] = []
    seen = initial
    for proposed in candidate.actions:
        if seen.done:
            break
        action = _valid_form(proposed, seen, rules, rewrite)
        if action is not None:
            seen = environment.step(action)
            steps.append(ReferenceStep(action, seen))
    return _reference(task, initial, steps[: _best_at(steps)], candidate.source)


def kept(reference: Reference, rules: str) -> Reference:
    """The reference with what the checks of its benchmark compare, and nothing more.

    ScienceWorld's admissible list (up to 1,600 strings) validates what a student does where the student stands; the
    reference's own list is never compared, nor are its objects (paper, appendix "Transition Consistency Checks").
    """
    if rules != "scienceworld":
        return reference
    return replace(
        reference,
        initial=_without_lists(reference.initial),
        steps=tuple(ReferenceStep(step.action, _without_lists(step.observation)) for step in reference.steps),
    )


def _valid_form(action: str, seen: Observation, rules: TransitionRules, rewrite: Rewrite) -> str | None:
    """The action as it can be submitted here; None if it cannot be."""
    if action in seen.admissible:
        return action
    for form in (action, *rewrite(action, seen)):
        if rules.valid(form, seen):
            # Rules forgive case and spaces, simulators do not: what is submitted is the listed spelling.
            wanted = normalize(form)
            return next((listed for listed in seen.admissible if normalize(listed) == wanted), form)
    return None


def _best_at(steps: Sequence[ReferenceStep]) -> int:
    """How many steps it takes to reach the best score; all of them if the score never rises."""
    scores = [step.observation.score for step in steps]
    return scores.index(max(scores)) + 1 if scores and max(scores) > 0 else len(steps)


def _reference(task: Task, initial: Observation, steps: Sequence[ReferenceStep], source: str) -> Reference:
    score = steps[-1].observation.score if steps else initial.score
    return Reference(task.id, initial, tuple(steps), source, score)


def _without_lists(observation: Observation) -> Observation:
    return replace(observation, admissible=(), objects=())
