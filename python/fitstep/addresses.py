"""Addresses of tensors that Python keeps as numbers.

A step's tensors move into its arena. `p.data_ptr()`, kept from before that, then names memory that
is somebody else's: as a key it finds nothing, and who writes there writes past the tensor.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from . import _core
from .errors import CaptureError

if TYPE_CHECKING:
    from .state import Node, Reach

_LEAST = 1 << 16  # No smaller number is an address.
_MOST_NUMBERS = 1 << 16  # Of a table of pointers.
_Pointer: Any = ctypes.POINTER(ctypes.c_int).__mro__[1]


def check_no_address(reach: Reach, tensors: dict[str, torch.Tensor]) -> None:
    """Raises CaptureError where what a step reaches keeps an address in one of these, which are
    about to move."""
    kept = sorted(((at, node, key) for at, node, key in _kept(reach)), key=lambda one: one[0])
    numbers = [at for at, _, _ in kept]
    for name, tensor in tensors.items():
        begin = _core.storage_begin(tensor)
        i = bisect_left(numbers, begin)
        if not begin or i == len(numbers) or numbers[i] >= begin + _core.storage_bytes(tensor):
            continue
        _, node, key = kept[i]
        raise CaptureError(
            f"{node.entry_path(key, reach.names)} holds an address in the memory of {name}, which "
            "moves when the step is compiled; the number would stay behind",
            todo="tell tensors apart by names or by id(tensor), and ask for data_ptr() in the step "
            "where memory is meant",
        )


def _kept(reach: Reach) -> Iterator[tuple[int, Node, object]]:
    for node in [*reach.nodes, *reach.huge]:
        for key, value in node.entries():
            for held in (key, value) if key is not value else (key,):
                for number in _addresses_in(held):
                    if number >= _LEAST:
                        yield number, node, key


def _addresses_in(held: Any) -> Iterator[int]:
    kind = type(held)
    if kind is int:
        yield held
    elif kind is str or kind is float or kind is bool or held is None:
        return
    elif kind is tuple or kind is frozenset:
        for one in held:
            yield from _addresses_in(one)
    elif isinstance(held, int | np.integer) and not isinstance(held, bool):
        yield int(held)
    elif isinstance(held, np.ndarray):
        if held.dtype.kind in "iu" and held.dtype.itemsize == 8 and held.size <= _MOST_NUMBERS:
            yield from held.ravel().tolist()
    elif kind is torch.Tensor and held.dtype is torch.int64 and held.device.type == "cpu":
        is_there = held.layout is torch.strided and not _core.is_hollow(held)
        if is_there and held.numel() <= _MOST_NUMBERS:
            yield from held.detach().ravel().tolist()
    elif isinstance(held, ctypes.c_void_p):
        yield held.value or 0
    elif isinstance(held, _Pointer):
        yield ctypes.cast(held, ctypes.c_void_p).value or 0
    elif isinstance(held, ctypes.Array | ctypes.Structure):
        yield ctypes.addressof(held)
