"""Saves and restores the entries of a functools.lru_cache."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import torch

from fitstep.errors import CaptureError


def values_in(cache: Any) -> Iterator[Any]:
    """All values of a cache, or the cache's elements that hold a value."""
    for held in gc.get_referents(cache):
        if type(held) is not dict:
            yield held
        elif held is not cache.__dict__:
            yield from held.values()


class CacheState:
    """Saves the entries of a cache when it is created."""

    def __init__(self, cache: Any) -> None:
        self._cache = cache
        self._was = dict(self._table())
        self._is_new = cache.cache_info()[:2] == (0, 0)  # Hits and misses.
        self._held = list(values_in(cache))

    def _table(self) -> dict[Any, Any]:
        of = self._cache.__dict__
        tables = (held for held in gc.get_referents(self._cache) if type(held) is dict)
        return next((table for table in tables if table is not of), {})

    def has_changed(self) -> bool:
        return self._table().keys() != self._was.keys()

    def restore(self) -> None:
        """Removes added entries. Raises CaptureError if an entry was evicted for them."""
        if self._is_new:
            self._cache.cache_clear()  # Resets the counts of hits and misses, too.
            return
        now = self._table()
        if now.keys() == self._was.keys():
            return
        has_gone = any(key not in now for key in self._was)
        before = set(map(id, self._held))
        added = [held for held in values_in(self._cache) if id(held) not in before]
        # Elements stay linked when their key is deleted, and may hold hollow tensors.
        has_links = self._cache.cache_parameters()["maxsize"] is not None and not all(
            map(_is_same_anew, added)
        )
        if (has_gone or has_links) and all(
            _is_same_anew(held) or held is self._cache.__wrapped__ for held in self._held
        ):
            self._cache.cache_clear()
            self._was = {}
            return
        for key in [key for key in now if key not in self._was]:
            del now[key]
        if has_gone:
            raise CaptureError(
                f"{self._cache.__wrapped__.__qualname__}() has a functools.lru_cache that is full; "
                "during compile it evicted entries, which fitstep cannot put back",
                todo="use functools.lru_cache(maxsize=None)",
            )


def _is_same_anew(value: Any) -> bool:
    """Whether a recomputed value is the same for every user. A float or a tensor is not: it may
    have been drawn at random."""
    if isinstance(value, tuple):
        return all(map(_is_same_anew, value))
    kind = type(value)
    is_own = kind is object or kind.__name__ == "_lru_list_elem"  # The cache's own.
    is_plain = is_own or isinstance(value, type | torch.dtype | torch.device)
    return is_plain or kind in (int, bool, str, bytes, type(None))
