"""What a functools.lru_cache keeps: in a dict, or in elements of its own."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import torch

from fitstep.errors import CaptureError
from fitstep.state.nodes import is_number_type


def values_in(cache: Any) -> Iterator[Any]:
    """All values, or elements that hold one."""
    for held in gc.get_referents(cache):
        if type(held) is not dict:
            yield held
        elif held is not cache.__dict__:
            yield from held.values()


class CacheState:
    """The entries of a cache as they are when this is made."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._was = dict(self._table())
        self._held = list(values_in(cache))

    def _table(self) -> dict[Any, Any]:
        of = self._cache.__dict__
        tables = (held for held in gc.get_referents(self._cache) if type(held) is dict)
        return next((table for table in tables if table is not of), {})

    def restore(self) -> None:
        """Takes out what was added. Raises CaptureError where others would go with it."""
        now = self._table()
        if now.keys() == self._was.keys():
            return
        if self._was and self._cache.cache_parameters()["maxsize"] is None:
            for key in [key for key in now if key not in self._was]:
                del now[key]
            return
        self._cache.cache_clear()  # Elements may hold hollow tensors; one cannot be taken out.
        own = (self._cache.__wrapped__, *self._was.values())
        if not all(_is_same_anew(held) or any(held is one for one in own) for held in self._held):
            raise CaptureError(
                f"{self._cache.__wrapped__.__qualname__}() has a functools.lru_cache of limited "
                "size, in which it keeps objects from before the step; compile, which undoes what "
                "a preview does, cannot take out one more",
                todo="use functools.lru_cache(maxsize=None)",
            )


def _is_same_anew(value: Any) -> bool:
    """Whether nobody can tell whether a value is made again."""
    if isinstance(value, tuple):
        return all(map(_is_same_anew, value))
    kind = type(value)
    is_plain = value is None or kind is object or isinstance(value, torch.Tensor | type)
    return is_plain or is_number_type(kind)
