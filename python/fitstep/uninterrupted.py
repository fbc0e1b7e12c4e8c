"""Ctrl-C during a step waits for its end: half a step is no state to stop in. A second one while
the plan runs does stop it, and StepFailed says what that leaves."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


@contextlib.contextmanager
def uninterrupted() -> Iterator[bool]:
    """Keeps SIGINT back while the body runs, and lets it act afterwards. The body is given whether
    Ctrl-C acts on this thread: on the main one, unless SIGINT is ignored."""
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(handler):
        yield False
        return
    held: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _number, frame: held.append(frame))
    try:
        yield True
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            handler(signal.SIGINT, held[0])
