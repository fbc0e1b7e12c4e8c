"""Functions that fitstep has to see when they are called, and that a user has under another name.

from torch import set_num_threads      compile replaces torch.set_num_threads, and not this
read = buffer.tolist
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from fitstep.ambient import setting_doors
from fitstep.errors import CaptureError
from fitstep.uninterrupted import SENDING

# Methods of a tensor that show its memory, or write to it, past operators.
READERS = (
    *("apply_", "map_", "map2_", "numpy", "tolist"),
    *("__dlpack__", "data_ptr", "untyped_storage", "storage"),
)
# Methods of a storage: that read or write what it holds, and that give it other memory.
STORAGE_READERS = ("data_ptr", "__getitem__", "_write_file")
STORAGE_WRITERS = ("__setitem__", "fill_", "copy_", "_byteswap", "_set_from_file")
STORAGE_MOVERS = (
    *("resize_", "_share_fd_cpu_", "_share_filename_cpu_", "_share_cuda_"),
    *("_set_cdata", "_swap_data_ptr_", "_resize_with_addr_"),
)
_METHODS = {
    torch.Tensor: ("tensors", READERS),
    torch.UntypedStorage: ("storages", (*STORAGE_READERS, *STORAGE_WRITERS, *STORAGE_MOVERS)),
}
_C: Any = torch._C
_SPLIT, _TO_DLPACK = torch.tensor_split, _C._to_dlpack


def check_not_taken(function: Any, path: Callable[[], str]) -> None:
    """Raises CaptureError if a function, reached by `path()`, is one that has to be seen."""
    owner = getattr(function, "__self__", None)
    of = getattr(function, "__objclass__", int)
    for kind, (kinds, names) in _METHODS.items():
        is_taken = type(function) is types.MethodDescriptorType and issubclass(kind, of)
        if (is_taken or isinstance(owner, kind)) and function.__name__ in names:
            raise CaptureError(
                f"{path()} is the method {function.__name__} of {kinds}, taken from there before "
                "compile; called in the step it may read what kernels have yet to write",
                todo=f"call it where it is needed: {kinds[:-1]}.{function.__name__}()",
            )
    name = _doors().get(id(getattr(function, "__wrapped__", function)))
    if name is not None:
        raise CaptureError(
            f"{path()} is {name}, taken from there before compile; what it does in the step "
            "fitstep cannot see",
            todo=f"call it where it is needed: {name}(...)",
        )


@functools.cache
def _doors() -> dict[int, str]:
    """By id, as a user writes them."""
    doors = [*setting_doors(), *SENDING]
    found = {id(change): f"{owner.__name__}.{name}" for owner, name, change in doors}
    return found | {id(_SPLIT): "torch.tensor_split", id(_TO_DLPACK): "torch.to_dlpack"}
