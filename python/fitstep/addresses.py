"""Addresses of tensors that Python keeps as numbers.

A step's tensors move into its arena. `p.data_ptr()`, kept from before that, then names memory that
is somebody else's: as a key it finds nothing, and who writes there writes past the tensor.
"""

from __future__ import annotations

import array
import ctypes
import functools
import gc
import re
from bisect import bisect_left
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from . import _core
from .errors import CaptureError

if TYPE_CHECKING:
    from .state import Reach

_LEAST = 1 << 16  # No smaller number is an address.
_UNITS = [1 << i for i in range(13)]  # Up to pages.
_MOST_NUMBERS = 1 << 16  # Of a table of pointers.
_MOST_DIGITS = 64
_DIGITS = re.compile(r"0x[0-9a-fA-F]{5,16}|(?<![0-9a-zA-Z])[1-9][0-9]{4,19}(?![0-9a-zA-Z])")
_KEY: Any = type(functools._make_key((1, 2), {}, False))  # Of a cache, for several arguments.
_WIDE = (torch.int64, torch.uint64, torch.float64)
_Pointer: Any = ctypes.POINTER(ctypes.c_int).__mro__[1]


def check_no_address(
    reach: Reach, tensors: dict[str, torch.Tensor], *, is_growing: bool = False
) -> None:
    """Raises CaptureError where what a step reaches keeps an address in one of these, which are
    about to move: when it is compiled, or as its arena has to grow."""
    kept = sorted(((at, path) for at, path in _kept(reach)), key=lambda one: one[0])
    numbers = [at for at, _ in kept]
    for name, tensor in tensors.items():
        begin = _core.storage_begin(tensor)
        i = _within(numbers, begin, begin + _core.storage_bytes(tensor)) if begin else None
        if i is None:
            continue
        if is_growing:
            when, todo = "now, as this call needs a larger arena", 'give a budget, as budget="300%"'
        else:
            when = "when the step is compiled"
            todo = "tell tensors apart by names or by id(tensor), and ask for data_ptr() in the "
            todo += "step where memory is meant"
        raise CaptureError(
            f"{kept[i][1]()} holds an address in the memory of {name}, which moves {when}; the "
            "number would stay behind",
            todo=todo,
        )


def _within(numbers: list[int], begin: int, end: int) -> int | None:
    """Which of these sorted numbers is an address of [begin, end), or counts units up to it."""
    for unit in _UNITS:
        i = bisect_left(numbers, begin // unit)
        if i < len(numbers) and numbers[i] * unit < end:
            return i
    return None


def _kept(reach: Reach) -> Iterator[tuple[int, Callable[[], str]]]:
    """Numbers that may be addresses, and how a user would write where each is."""
    for node in [*reach.nodes, *reach.huge]:
        for key, value in node.entries():
            for held in (key, value) if key is not value else (key,):
                for number in _addresses_in(held):
                    yield number, functools.partial(node.entry_path, key, reach.names)
    for cache in reach.caches:
        for table in gc.get_referents(cache):
            for key in table if type(table) is dict else ():
                for number in _addresses_in(key):
                    yield number, lambda: "a key of a functools.lru_cache"


def _addresses_in(held: Any) -> Iterator[int]:
    for number in _numbers_in(held):
        if number >= _LEAST:
            yield int(number)


def _numbers_in(held: Any) -> Iterator[Any]:
    kind = type(held)
    if kind is int:
        yield held
    elif kind is bool or held is None:
        return
    elif kind is str:
        if len(held) <= _MOST_DIGITS:
            yield from (int(found, 0) for found in _DIGITS.findall(held))
    elif isinstance(held, int | float | np.integer | np.floating):
        number: Any = held
        yield from [number] if abs(number) < 2**64 else []
    elif isinstance(held, tuple | frozenset | _KEY):
        for one in held:
            yield from _numbers_in(one)
    elif isinstance(held, torch.Tensor):
        is_wide = held.dtype in _WIDE and held.device.type == "cpu"
        is_there = held.layout is torch.strided and not _core.is_hollow(held)
        if is_wide and is_there and held.numel() <= _MOST_NUMBERS:
            yield from held.detach().ravel().tolist()
    elif isinstance(held, np.ndarray):
        if held.size <= _MOST_NUMBERS:
            yield from _numbers_in_array(held)
    elif isinstance(held, array.array):
        yield from held if len(held) <= _MOST_NUMBERS and held.typecode in "lLqQd" else ()
    elif isinstance(held, ctypes._SimpleCData):
        yield from _numbers_in(held.value)
    elif isinstance(held, _Pointer):
        yield ctypes.cast(held, ctypes.c_void_p).value or 0
    elif isinstance(held, ctypes.Array | ctypes.Structure):
        yield ctypes.addressof(held)
        fields = [name for name, *_ in getattr(held, "_fields_", ())]
        for one in held if isinstance(held, ctypes.Array) else map(held.__getattribute__, fields):
            yield from _numbers_in(one)


def _numbers_in_array(held: Any) -> Iterator[Any]:
    if held.dtype.names:
        for name in held.dtype.names:
            yield from _numbers_in_array(held[name])
    elif held.dtype == object:
        for one in held.ravel().tolist():
            yield from _numbers_in(one)
    elif held.dtype.kind in "iuf" and held.dtype.itemsize == 8:
        yield from (one for one in held.ravel().tolist() if abs(one) < 2**64)
