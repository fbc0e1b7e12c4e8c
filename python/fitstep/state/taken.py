"""Refuses user references to functions that fitstep patches: calls through them are not seen.

from torch import set_num_threads      compile patches torch.set_num_threads, not this name
read = buffer.tolist
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from fitstep.base.ambient import setting_doors
from fitstep.base.uninterrupted import SENDING
from fitstep.errors import CaptureError

# Methods of a tensor that read or write its memory without an operator.
READERS = (
    *("apply_", "map_", "map2_", "numpy", "tolist"),
    *("__dlpack__", "data_ptr", "untyped_storage", "storage"),
)
# Methods of a storage: those that read it, write it, or give it other memory.
STORAGE_READERS = ("data_ptr", "__getitem__", "_write_file")
STORAGE_WRITERS = ("__setitem__", "fill_", "copy_", "_byteswap", "_set_from_file")
# `versions.py` says since when there are the two: a torch that should have them is refused without.
_NEWER = ("_swap_data_ptr_", "_resize_with_addr_")
STORAGE_MOVERS = (
    *("resize_", "_share_fd_cpu_", "_share_filename_cpu_", "_share_cuda_"),
    "_set_cdata",
    *(name for name in _NEWER if hasattr(torch.UntypedStorage, name)),
)
_METHODS = {
    torch.Tensor: ("tensors", READERS),
    torch.UntypedStorage: ("storages", (*STORAGE_READERS, *STORAGE_WRITERS, *STORAGE_MOVERS)),
}
_C: Any = torch._C
_SPLIT, _TO_DLPACK = torch.tensor_split, _C._to_dlpack


def check_not_taken(function: Any, path: Callable[[], str]) -> None:
    """Raises CaptureError if a function in reach, at `path()`, is one that fitstep patches."""
    owner = getattr(function, "__self__", None)
    of = getattr(function, "__objclass__", int)
    for kind, (kinds, names) in _METHODS.items():
        is_taken = type(function) is types.MethodDescriptorType and issubclass(kind, of)
        if (is_taken or isinstance(owner, kind)) and function.__name__ in names:
            raise CaptureError(
                f"{path()} is the method {function.__name__} of {kinds}, stored before compile; "
                "a call of it in the step may read memory that kernels have not written yet",
                todo=f"call the method in the step: {kinds[:-1]}.{function.__name__}()",
            )
    name = _doors().get(id(getattr(function, "__wrapped__", function)))
    if name is not None:
        raise CaptureError(
            f"{path()} is {name}, stored under this name before compile; fitstep does not see "
            "calls of it in the step",
            todo=f"write {name}(...) in the step",
        )


@functools.cache
def _doors() -> dict[int, str]:
    """By id of a patched function: its name as a user writes it."""
    doors = [*setting_doors(), *SENDING]
    found = {id(change): f"{owner.__name__}.{name}" for owner, name, change in doors}
    return found | {id(_SPLIT): "torch.tensor_split", id(_TO_DLPACK): "torch.to_dlpack"}
