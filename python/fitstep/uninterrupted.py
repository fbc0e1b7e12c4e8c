"""Ctrl-C during a step waits for its end: half a step is no state to stop in. A second one while
the plan runs does stop it, and StepFailed says what that leaves."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType


def is_interruptible() -> bool:
    """Whether Ctrl-C acts on this thread: on the main one, unless SIGINT is ignored."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and callable(signal.getsignal(signal.SIGINT))


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Keeps SIGINT back while the body runs, and lets it act afterwards."""
    handler = signal.getsignal(signal.SIGINT)
    if not is_interruptible() or not callable(handler):
        yield
        return
    held: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _number, frame: held.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
        if held:
            handler(signal.SIGINT, held[0])
