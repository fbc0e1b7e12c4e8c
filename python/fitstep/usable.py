"""Who may use a session now: nobody in a forked process, and one call at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .errors import FitstepError

if TYPE_CHECKING:
    from .session import Session


def check_usable(session: Session) -> None:
    """Raises FitstepError if no step of this session can run any more."""
    if session.is_forsaken:
        raise FitstepError(
            "this step was compiled in another process, from which this one was forked; its "
            "memory is not here",
            todo="start this process with the method 'spawn' and compile the step function there; "
            "in a forked one PyTorch's own threads may hang",
        )
    if session.is_ending:
        raise FitstepError("the process ends", todo="join() threads that run steps before")
    if session.is_closed:
        raise FitstepError(
            "this compiled step was closed, or another one that shares its model was",
            todo="compile the step function again",
        )


@contextlib.contextmanager
def alone(session: Session) -> Iterator[None]:
    """The arena is the body's: no step runs, and none is compiled or closed. Raises FitstepError
    where that is under way."""
    if not session.lock.acquire(blocking=False):
        raise FitstepError(
            "a compiled step of this model is running already (in another thread, or the step "
            "calls itself)",
            todo="run one step at a time, and compile or close steps while none runs",
        )
    try:
        yield
    finally:
        session.lock.release()
