"""Reads the local variables of running functions without `f_locals`: up to Python 3.12, `f_locals`
changes the dict that the user's `locals()` returned, and the frame keeps that dict."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from types import FrameType
from typing import Any

from .. import _core


def all_locals() -> Iterator[Any]:
    """Values of local variables of all running functions, on every thread. The garbage collector
    does not list them."""
    for top in [*sys._current_frames().values()]:
        frame: FrameType | None = top
        while frame is not None:
            yield from _core.values_of_frame(frame)
            frame = frame.f_back


def arguments_of(frame: FrameType) -> list[Any]:
    """The arguments of a function that has just begun."""
    code = frame.f_code
    if sys.version_info < (3, 11):  # Slots of variables that closures use are empty.
        names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        return [frame.f_locals[name] for name in names if name in frame.f_locals]
    return _core.values_of_frame(frame)[: code.co_argcount + code.co_kwonlyargcount]
