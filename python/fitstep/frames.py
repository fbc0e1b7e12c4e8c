"""What variables of running functions hold. f_locals is not asked for it: up to Python 3.12 that
changes the dict that `locals()` has given, and a frame keeps what it has given."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from . import _core


def all_locals() -> Iterator[Any]:
    """Of all functions that run, on any thread; no collector knows of these."""
    for top in [*sys._current_frames().values()]:
        frame: FrameType | None = top
        while frame is not None:
            yield from _core.values_of_frame(frame)
            frame = frame.f_back


def arguments_of(frame: FrameType) -> list[Any]:
    """Of a function that has just begun."""
    code = frame.f_code
    if sys.version_info < (3, 11):  # The slots of those that inner functions use are empty.
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return [frame.f_locals[name] for name in names if name in frame.f_locals]
    return _core.values_of_frame(frame)[: code.co_argcount + code.co_kwonlyargcount]
