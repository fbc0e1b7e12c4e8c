"""Finds data pointers of tensors that Python keeps as numbers, before the tensors move.

compile moves a step's tensors into the arena. A number from an earlier `p.data_ptr()` is wrong
then: as a dict key it finds nothing, and a write through it hits other memory.
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

from .. import _core
from ..base.collector import all_objects
from ..errors import CaptureError

if TYPE_CHECKING:
    from ..state import Reach

_Path = Callable[[], str]

_LEAST = 1 << 16  # Smaller numbers are no addresses.
_MOST = 1 << 57  # Larger numbers are no addresses.
_UNITS = [1 << i for i in range(13)]  # An address may be counted in units, up to pages.
_MOST_BYTES = 1 << 19  # Larger arrays and tensors are not searched for addresses.
_MOST_LETTERS = 1 << 14
_MOST_DIGITS = 20
_DIGITS = re.compile(r"0x[0-9a-fA-F]{5,16}|(?<![0-9a-zA-Z])[1-9][0-9]{4,19}(?![0-9a-zA-Z])")
_KEY: Any = type(functools._make_key((1, 2), {}, False))  # A key of lru_cache with 2 arguments.
_Data: Any = ctypes.c_int.__mro__[2]  # The base class of all ctypes objects.
_OLD = 2  # The oldest generation of the garbage collector.


def check_no_address(
    reach: Reach, tensors: dict[str, torch.Tensor], *, is_growing: bool = False
) -> None:
    """Raises CaptureError if a value within reach is an address in one of `tensors`, which are
    about to move into the arena, or with `is_growing` into a larger arena."""
    counted, shown = _Kept(_kept(reach, _addresses_in)), _Kept(_kept(reach, _memory_of))
    for name, tensor in tensors.items():
        path = counted.within(tensor)
        if path is None and not _core.is_lent(tensor):  # Lent tensors do not move.
            path = shown.within(tensor)
        if path is None:
            continue
        if is_growing:
            when, todo = "now, as this call needs a larger arena", 'compile with budget="300%", say'
        else:
            when = "when the step is compiled"
            todo = "use names or id(tensor) as keys, and call data_ptr() in the step when an "
            todo += "address is needed"
        raise CaptureError(
            f"{path()} holds an address in the memory of {name}, which moves {when}; the "
            "address would be wrong then",
            todo=todo,
        )


def collections() -> int:
    """How often the garbage collector has moved young objects to an older generation."""
    return sum(one["collections"] for one in gc.get_stats()[1:])


def pointers_since(then: int) -> list[tuple[Any, list[int]]]:
    """ctypes objects made since collections() was `then`, each with the addresses in it."""
    # Python 3.14 has no middle generation.
    is_young = collections() == then and sys.version_info < (3, 14)
    # Lazy: a list of the first generation's objects must not exist when the second is listed.
    every = map(gc.get_objects, range(_OLD)) if is_young else iter([all_objects()])
    made = [one for some in every for one in some if issubclass(type(one), _Data)]
    return [(one, list(_addresses_in(one))) for one in made]


class _Kept:
    """Numbers that may be addresses, sorted, each with the path to where it is kept."""

    def __init__(self, found: Iterator[tuple[int, _Path]]) -> None:
        self._found = sorted(found, key=lambda one: one[0])
        self._numbers = [at for at, _ in self._found]

    def __bool__(self) -> bool:
        return bool(self._found)

    def within(self, tensor: torch.Tensor) -> _Path | None:
        """The path of a number that is an address in the tensor's memory, in bytes or in units."""
        begin = _core.storage_begin(tensor)
        for unit in _UNITS if begin else ():
            i = bisect_left(self._numbers, begin // unit)
            end = begin + _core.storage_bytes(tensor)
            if i < len(self._numbers) and self._numbers[i] * unit < end:
                return self._found[i][1]
        return None


def check_no_pointer(reach: Reach) -> None:
    """Raises CaptureError if the step reaches a ctypes pointer to one of its tensors. fitstep could
    not put back what a preview writes through the pointer."""
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
                todo="create the pointer in the step, from tensor.data_ptr()",
            )


def _kept(reach: Reach, find: Callable[[Any], Iterator[int]]) -> Iterator[tuple[int, _Path]]:
    """(number, path in the user's words) for each number that `find` finds in values in reach."""
    for node in [*reach.nodes, *reach.huge]:
        for key, value in node.entries():
            for held in (key, value) if key is not value else (key,):
                for number in find(held):
                    yield number, functools.partial(node.entry_path, key, reach.names)
    for cache in reach.caches:
        for table in gc.get_referents(cache):
            for held in table.items() if type(table) is dict else ():
                for one in (*held, *gc.get_referents(held[1])):  # The element that holds a result.
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
    """The data pointer of a tensor or an array that is a view of memory which it does not own."""
    if isinstance(held, torch.Tensor):
        if held.layout is torch.strided and held.device.type == "cpu" and _core.is_lent(held):
            yield _core.storage_begin(held)  # For example from torch.frombuffer().
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
        with contextlib.suppress(Exception):  # NaN, infinity, or a class without int().
            yield int(held)  # type: ignore[call-overload]
    elif isinstance(held, tuple | frozenset | _KEY):
        for one in held:
            yield from _numbers_in(one)
    elif isinstance(held, torch.Tensor):
        is_there = held.layout is torch.strided and held.device.type == "cpu"
        is_whole = not (held.is_floating_point() or held.is_complex())
        with contextlib.suppress(TypeError, RuntimeError):  # Quantized or nested.
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
        for one in (held, *objects):  # The object, and the objects that it points to.
            if isinstance(one, _Data) and one._b_needsfree_:  # Memory of others may be freed.
                yield from _words_in(ctypes.string_at(ctypes.addressof(one), ctypes.sizeof(one)))


def _has_few_bytes(tensor: torch.Tensor) -> bool:
    return not _core.is_hollow(tensor) and tensor.nbytes <= _MOST_BYTES


def _words_in(held: bytes | bytearray) -> Iterator[int]:
    """Words of eight bytes that may be addresses, at each multiple of four bytes."""
    raw = bytes(held) if len(held) <= _MOST_BYTES else b""
    for begin in (0, 4):
        words = np.frombuffer(raw, np.uint64, max(len(raw) - begin, 0) // 8, min(begin, len(raw)))
        yield from words[(words >= _LEAST) & (words < _MOST)].tolist()


def _numbers_in_array(held: Any) -> Iterator[Any]:
    held = np.asarray(held)  # Derived classes may override comparison.
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
