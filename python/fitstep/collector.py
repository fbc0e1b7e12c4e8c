"""Python's collector of cycles: all that it knows, and less for it to do in a preview."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator
from typing import Any


def all_objects() -> list[Any]:
    """That the collector knows, those included that gc.freeze() has hidden from it."""
    if gc.get_freeze_count() == 0:
        return gc.get_objects()
    gc.collect()  # What is garbage now would be frozen with the rest.
    gc.unfreeze()
    try:
        return gc.get_objects()
    finally:
        gc.freeze()


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
