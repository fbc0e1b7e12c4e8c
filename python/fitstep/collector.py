"""Python's collector of cycles: all that it knows, and less for it to do in a preview."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any

from . import _core


def all_objects() -> list[Any]:
    """That the collector knows, those included that gc.freeze() has hidden from it."""
    free = gc.get_objects()
    if gc.get_freeze_count() == 0:
        return free
    gc.unfreeze()
    every = gc.get_objects()
    gc.freeze()
    _core.track_anew(free)  # Or what is garbage among them would never be collected.
    return every


@contextlib.contextmanager
def collecting_new() -> Iterator[None]:
    """In its body the collector looks at new objects only: to look at a million others, as
    libraries make, takes longer than to record a step."""
    is_free = gc.get_freeze_count() == 0  # Or what somebody has frozen would thaw, too.
    if is_free:
        gc.freeze()
    try:
        yield
    finally:
        if is_free:
            gc.unfreeze()
