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
_C: Any = torch._C
_SPLIT, _TO_DLPACK = torch.tensor_split, _C._to_dlpack


def check_not_taken(function: Any, path: Callable[[], str]) -> None:
    """Raises CaptureError if a function, reached by `path()`, is one that has to be seen."""
    owner = getattr(function, "__self__", None)
    is_methods = isinstance(owner, torch.Tensor) or (
        isinstance(function, types.MethodDescriptorType)
        and issubclass(torch.Tensor, function.__objclass__)
    )
    if is_methods and function.__name__ in READERS:
        raise CaptureError(
            f"{path()} is the method {function.__name__} of tensors, taken from there before "
            "compile; called in the step it may read what kernels have yet to write",
            todo=f"call it where it is needed: tensor.{function.__name__}()",
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
