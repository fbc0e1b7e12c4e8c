"""Python's garbage collector: lists all its objects, and makes it faster during a preview."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

from .. import _core


def all_objects() -> list[Any]:
    """All objects that the collector tracks, with those that gc.freeze() hid."""
    free = gc.get_objects()
    if gc.get_freeze_count() == 0:
        return free
    gc.unfreeze()
    every = gc.get_objects()
    gc.freeze()
    _core.track_anew(free)  # gc.freeze() froze these, too; garbage among them would stay.
    return every


@contextlib.contextmanager
def collecting_new() -> Iterator[None]:
    """In its body the collector looks at new objects only. A pass over the million objects of
    imported libraries takes longer than recording a step."""
    is_free = gc.get_freeze_count() == 0  # gc.unfreeze() would thaw the user's frozen objects.
    if is_free:
        gc.freeze()
    try:
        yield
    finally:
        if is_free:
            gc.unfreeze()
