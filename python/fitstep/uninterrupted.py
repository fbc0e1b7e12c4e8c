"""Ctrl-C during a step waits for its end: half a step is no state to stop in. A second one while
the plan runs does stop it, and StepFailed says what that leaves."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

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
    held: list[FrameType | None] = []
    signal.signal(signal.SIGINT, lambda _number, frame: held.append(frame))
    has_failed = False
    try:
        yield True
    except StepFailed as error:
        has_failed = True
        if held:
            error.add_note("Ctrl-C was pressed while the step ran.")
        raise
    finally:
        signal.signal(signal.SIGINT, handler)
        if held and not has_failed:
            handler(signal.SIGINT, held[0])
