"""Addresses of tensors that Python keeps as numbers.

A step's tensors move into its arena. `p.data_ptr()`, kept from before that, then names memory that
is somebody else's: as a key it finds nothing, and who writes there writes past the tensor.
"""

from __future__ import annotations

import array
import contextlib
import contextvars
import ctypes
import decimal
import functools
import gc
import numbers
import operator
import re
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from . import _core
from .collector import all_objects
from .errors import CaptureError

if TYPE_CHECKING:
    from .state import Reach

_Path = Callable[[], str]

_LEAST = 1 << 16  # No smaller number is an address,
_MOST = 1 << 57  # and no larger one.
_UNITS = [1 << i for i in range(13)]  # Up to pages.
_MOST_BYTES = 1 << 19  # Of a table of pointers.
_MOST_LETTERS = 1 << 14
_MOST_DIGITS = 20
_DIGITS = re.compile(r"0x[0-9a-fA-F]{5,16}|(?<![0-9a-zA-Z])[1-9][0-9]{4,19}(?![0-9a-zA-Z])")
_KEY: Any = type(functools._make_key((1, 2), {}, False))  # Of a cache, for several arguments.
_Data: Any = ctypes.c_int.__mro__[2]  # Of all ctypes.
_OLD = 2  # The collector's generation.


def check_no_address(
    reach: Reach, tensors: dict[str, torch.Tensor], *, is_growing: bool = False
) -> None:
    """Raises CaptureError where what a step reaches keeps an address in one of these, which are
    about to move: when it is compiled, or as its arena has to grow."""
    counted, shown = _Kept(_kept(reach, _addresses_in)), _Kept(_kept(reach, _memory_of))
    for name, tensor in tensors.items():
        path = counted.within(tensor)
        if path is None and not _core.is_lent(tensor):  # Or what shows it keeps it where it is.
            path = shown.within(tensor)
        if path is None:
            continue
        if is_growing:
            when, todo = "now, as this call needs a larger arena", 'give a budget, as budget="300%"'
        else:
            when = "when the step is compiled"
            todo = "tell tensors apart by names or by id(tensor), and ask for data_ptr() in the "
            todo += "step where memory is meant"
        raise CaptureError(
            f"{path()} holds an address in the memory of {name}, which moves {when}; the "
            "number would stay behind",
            todo=todo,
        )


def collections() -> int:
    """How often what is young for the collector has become old."""
    return sum(one["collections"] for one in gc.get_stats()[1:])


def pointers_since(then: int) -> list[tuple[Any, list[int]]]:
    """What was made with ctypes since collections() was `then`, and the addresses in it."""
    is_young = collections() == then and sys.version_info < (3, 14)  # Which has no middle one.
    # A list of all objects that is kept while it grows would hold itself, and them.
    every = map(gc.get_objects, range(_OLD)) if is_young else iter([all_objects()])
    made = [one for some in every for one in some if issubclass(type(one), _Data)]
    return [(one, list(_addresses_in(one))) for one in made]


class _Kept:
    """Numbers that may be addresses, by size, and where each is."""

    def __init__(self, found: Iterator[tuple[int, _Path]]) -> None:
        self._found = sorted(found, key=lambda one: one[0])
        self._numbers = [at for at, _ in self._found]

    def __bool__(self) -> bool:
        return bool(self._found)

    def within(self, tensor: torch.Tensor) -> _Path | None:
        """Of one that is an address of the tensor's memory, or counts units up to it."""
        begin = _core.storage_begin(tensor)
        for unit in _UNITS if begin else ():
            i = bisect_left(self._numbers, begin // unit)
            end = begin + _core.storage_bytes(tensor)
            if i < len(self._numbers) and self._numbers[i] * unit < end:
                return self._found[i][1]
        return None


def check_no_pointer(reach: Reach) -> None:
    """Raises CaptureError where the step reaches a ctypes pointer to one of its tensors: nobody
    could put back what a preview writes there."""
    kept = _Kept(_kept(reach, _pointed_at))
    for place in reach.unique() if kept else ():
        tensor = place.tensor
        is_there = tensor.layout is torch.strided and _core.has_storage(tensor)
        path = kept.within(tensor) if is_there else None
        if path is not None:
            name = place.above.path(reach.names)
            raise CaptureError(
                f"{path()} points into the memory of {name}, and fitstep cannot see what a step "
                "writes there",
                todo="take the pointer in the step: tensor.data_ptr()",
            )


def _kept(reach: Reach, find: Callable[[Any], Iterator[int]]) -> Iterator[tuple[int, _Path]]:
    """What `find` gives for all that is held, and how a user would write where it is."""
    for node in [*reach.nodes, *reach.huge]:
        for key, value in node.entries():
            for held in (key, value) if key is not value else (key,):
                for number in find(held):
                    yield number, functools.partial(node.entry_path, key, reach.names)
    for cache in reach.caches:
        for table in gc.get_referents(cache):
            for held in table.items() if type(table) is dict else ():
                for one in (*held, *gc.get_referents(held[1])):  # What a result is held by.
                    for number in find(one):
                        yield number, lambda: "a functools.lru_cache"
    for var, value in contextvars.copy_context().items():
        for number in find(value):
            yield number, functools.partial("the context variable {}".format, var.name)


def _addresses_in(held: Any) -> Iterator[int]:
    for number in _numbers_in(held):
        if number >= _LEAST:
            yield int(number)


def _pointed_at(held: Any) -> Iterator[int]:
    return _addresses_in(held) if isinstance(held, _Data) else iter(())


def _memory_of(held: Any) -> Iterator[int]:
    """Where somebody's memory is that a tensor or an array shows, without holding it itself."""
    if isinstance(held, torch.Tensor):
        if held.layout is torch.strided and held.device.type == "cpu" and _core.is_lent(held):
            yield _core.storage_begin(held)  # Made by torch.frombuffer().
    elif isinstance(held, memoryview):
        with contextlib.suppress(TypeError, ValueError, BufferError):
            yield from _memory_of(np.asarray(held))
    elif isinstance(held, np.ndarray):
        yield held.__array_interface__["data"][0]


def _numbers_in(held: Any) -> Iterator[Any]:
    kind = type(held)
    if kind is int:
        yield held
    elif kind is bool or held is None:
        return
    elif kind is str:
        if len(held) <= _MOST_LETTERS:
            yield from (int(found, 0) for found in _DIGITS.findall(held))
    elif isinstance(held, np.ndarray):
        yield from _numbers_in_array(held)
    elif isinstance(held, decimal.Decimal):
        yield from [int(held)] if held.is_finite() and held.adjusted() < _MOST_DIGITS else []
    elif isinstance(held, numbers.Real):
        with contextlib.suppress(Exception):  # Not a number, or of a class that has no int().
            yield int(held)  # type: ignore[call-overload]
    elif isinstance(held, tuple | frozenset | _KEY):
        for one in held:
            yield from _numbers_in(one)
    elif isinstance(held, torch.Tensor):
        is_there = held.layout is torch.strided and held.device.type == "cpu"
        is_whole = not (held.is_floating_point() or held.is_complex())
        with contextlib.suppress(TypeError, RuntimeError):  # Quantized or nested: no table.
            if is_there and (is_whole or held.dtype is torch.float64) and _has_few_bytes(held):
                with torch._C.DisableTorchFunctionSubclass():
                    copied = held.detach().clone().numpy()
                yield from _numbers_in_array(copied)
    elif isinstance(held, array.array):
        yield from _numbers_in_array(np.array(held))
    elif isinstance(held, bytes | bytearray):
        yield from _words_in(held)
    elif isinstance(held, slice | range):
        yield from _numbers_in((held.start, held.stop, held.step))
    elif isinstance(held, BaseException):
        yield from _numbers_in(held.args)
    elif isinstance(held, operator.itemgetter):
        yield from _numbers_in(held.__reduce__()[1])
    elif isinstance(held, _Data):
        yield ctypes.addressof(held)
        objects = held._objects.values() if isinstance(held._objects, dict) else ()
        for one in (held, *objects):  # And what it points to.
            if isinstance(one, _Data) and one._b_needsfree_:  # Or the memory may be gone.
                yield from _words_in(ctypes.string_at(ctypes.addressof(one), ctypes.sizeof(one)))


def _has_few_bytes(tensor: torch.Tensor) -> bool:
    return not _core.is_hollow(tensor) and tensor.nbytes <= _MOST_BYTES


def _words_in(held: bytes | bytearray) -> Iterator[int]:
    """What lies there in eight bytes, from each fourth on."""
    raw = bytes(held) if len(held) <= _MOST_BYTES else b""
    for begin in (0, 4):
        words = np.frombuffer(raw, np.uint64, max(len(raw) - begin, 0) // 8, min(begin, len(raw)))
        yield from words[(words >= _LEAST) & (words < _MOST)].tolist()


def _numbers_in_array(held: Any) -> Iterator[Any]:
    held = np.asarray(held)  # Derived classes may compare in their own way.
    if held.dtype.hasobject:
        for name in held.dtype.names or ():
            yield from _numbers_in_array(held[name])
        for one in held.ravel().tolist() if held.dtype == object else ():
            yield from _numbers_in(one)
    elif held.nbytes <= _MOST_BYTES and held.dtype.kind != "c":
        if held.dtype == np.float64:
            with np.errstate(all="ignore"):
                held = held[(held >= _LEAST) & (held < _MOST)].astype(np.uint64)
        if held.dtype.kind != "f":
            yield from _words_in(held.tobytes())
