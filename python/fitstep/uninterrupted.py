"""Ctrl-C during a step waits for its end: half a step is no state to stop in. A second one while
the plan runs does stop it, and StepFailed says what that leaves."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from .errors import StepFailed


@contextlib.contextmanager
def uninterrupted() -> Iterator[bool]:
    """Keeps SIGINT back while the body runs, and lets it act afterwards. The body is given whether
    Ctrl-C acts on this thread: on the main one, unless SIGINT is ignored.

    StepFailed is not hidden by the KeyboardInterrupt of one Ctrl-C: who saves a checkpoint at that
    would save half a step. It has a note instead.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield False
        return
    held = _Held(handler)
    signal.signal(signal.SIGINT, held)
    has_failed = False
    try:
        yield True
    except StepFailed as error:
        has_failed = True
        if held.frames:
            error.add_note("Ctrl-C was pressed while the step ran.")
        raise
    finally:
        signal.signal(signal.SIGINT, handler)
        if not has_failed:
            held.act()


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """In a body of uninterrupted(), where nothing has changed yet: Ctrl-C acts at once, also one
    that was kept back before."""
    held = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not isinstance(held, _Held):
        yield
        return
    signal.signal(signal.SIGINT, held.handler)
    try:
        held.act()
        yield
    finally:
        signal.signal(signal.SIGINT, held)


class _Held:
    """Stands where the handler of SIGINT stood, and notes what it is called for."""

    def __init__(self, handler: Callable[[int, FrameType | None], Any]) -> None:
        self.handler = handler
        self.frames: list[FrameType | None] = []

    def __call__(self, _number: int, frame: FrameType | None) -> None:
        self.frames.append(frame)

    def act(self) -> None:
        """Has the handler called for the first, if there was one."""
        frames, self.frames = self.frames, []
        if frames:
            self.handler(signal.SIGINT, frames[0])
