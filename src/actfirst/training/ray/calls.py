"""Awaiting what an actor answers: its own errors as they are, and the loss of the actor as `Lost`."""

from __future__ import annotations

import asyncio
from typing import Any

import ray
from ray.exceptions import (
    GetTimeoutError,
    NodeDiedError,
    ObjectLostError,
    RayActorError,
    RayError,
    RayTaskError,
    TaskCancelledError,
    WorkerCrashedError,
)

from actfirst.errors import ActfirstError, EngineError

_LOSSES = (RayActorError, WorkerCrashedError, NodeDiedError, GetTimeoutError)


class Lost(Exception):
    """An actor that is not there any more, or whose answer is not."""


class ObjectGone(Lost):
    """Something in the object store that went away with whoever had put it there."""


TRANSFER_SECONDS = 600.0
"""A call that moves weights and has no answer by then has none at all."""


async def finished(reference: Any, seconds: float | None = None) -> Any:
    """The answer to a call. Cancelling the awaiting task cancels the call; one that takes longer counts as lost."""
    try:
        async with asyncio.timeout(seconds):
            return await reference
    except TimeoutError as error:
        ray.cancel(reference)
        raise Lost(f"no answer in {seconds:g} s") from error
    except asyncio.CancelledError:
        ray.cancel(reference)
        raise
    except ObjectLostError as error:
        raise ObjectGone(_first_line(error)) from error
    except _LOSSES as error:
        raise Lost(_first_line(error)) from error
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, ObjectLostError):  # the actor is fine, but what it asked for is not there
            raise ObjectGone(_first_line(cause)) from error
        raise ours(cause) from (None if isinstance(cause, ActfirstError) else error)
    except TaskCancelledError as error:
        raise Lost("the call was cancelled") from error
    except RayError as error:
        raise EngineError(f"Ray failed: {_first_line(error)}") from error


def ours(error: BaseException) -> ActfirstError:
    """A failure in another process as one of ours."""
    if isinstance(error, ActfirstError):
        return error
    return EngineError(f"{type(error).__name__} in a process of the run: {error}")


def end(actor: Any) -> None:
    """Kill an actor; fine if it is dead already."""
    ray.kill(actor)


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
