"""What variables of running functions hold.

Up to Python 3.12 a frame keeps what `f_locals` has given, and with it what its function has dropped
since: activations, and objects with a finalizer.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

_OWN_REFERENCES = 3  # To the frame's dict: the frame's, the variable's, and that of who counts.


def locals_of(frame: FrameType) -> dict[str, Any]:
    """Values by variable, of which the frame keeps nothing on our account."""
    found = frame.f_locals
    copied = dict(found)
    is_snapshot = type(found) is dict and frame.f_code.co_flags & inspect.CO_OPTIMIZED
    if is_snapshot and sys.getrefcount(found) <= _OWN_REFERENCES:  # Or locals() has given it.
        found.clear()
    return copied


def all_locals() -> Iterator[Any]:
    """Of all functions that run, on any thread; no collector knows of these."""
    for top in _frames_of_threads():
        frame: FrameType | None = top
        while frame is not None:
            yield from locals_of(frame).values()
            frame = frame.f_back


def _frames_of_threads() -> list[FrameType]:
    """Without those of this module: a frame that holds itself ends when the collector comes."""
    own = sys._getframe()
    found = []
    for frame in sys._current_frames().values():
        at: FrameType | None = frame
        while at is not None and at.f_globals is own.f_globals:
            at = at.f_back
        if at is not None:
            found.append(at)
    return found
