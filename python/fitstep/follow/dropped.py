"""Gradients that steps have dropped: code behind a step that reads one gets an error, not None.

plain PyTorch      p.grad stays until somebody clears it: zero_grad(), p.grad = None
a compiled step    it is gone already. Clearing it changes nothing, reading it raises

`torch.nn.Parameter.grad` becomes a property for that, when a step drops a gradient for the first
time. Tensors with gradients that are no Parameter are not looked at.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections.abc import Iterator
from types import FrameType
from typing import Any

import torch

from ..errors import FitstepError, user_location

_GRAD: Any = torch.Tensor.grad  # The descriptor that PyTorch has for it.
_TAKES_ALONG = "_apply"  # Module.to() and others move gradients with their parameters.

_dropped: dict[int, weakref.ref[torch.Tensor]] = {}  # By id.
_is_previewing = False


def drop(parameter: torch.Tensor) -> None:
    """Clears a gradient that plain PyTorch would still have."""
    parameter.grad = None
    if isinstance(parameter, torch.nn.Parameter):
        key = id(parameter)
        _dropped[key] = weakref.ref(parameter, lambda _: _dropped.pop(key, None))
        if "grad" not in vars(torch.nn.Parameter):
            torch.nn.Parameter.grad = property(_read, _write, _write)  # type: ignore[assignment]


def is_like(ghost: torch.Tensor, p: torch.Tensor) -> bool:
    """Whether the ghost fits the parameter, which may have got another dtype or device."""
    return ghost.shape == p.shape and ghost.dtype == p.dtype and ghost.device == p.device


@contextlib.contextmanager
def previewing() -> Iterator[None]:
    """In its body gradients may be read and cleared, because all of it will be put back."""
    global _is_previewing
    before, _is_previewing = _is_previewing, True
    try:
        yield
    finally:
        _is_previewing = before


def _read(parameter: torch.Tensor) -> torch.Tensor | None:
    grad: torch.Tensor | None = _GRAD.__get__(parameter)
    if grad is None and _is_dropped(parameter) and not _is_previewing:
        _check_reader(parameter, sys._getframe(1))
    return grad


def _write(parameter: torch.Tensor, grad: torch.Tensor | None = None) -> None:
    if not _is_previewing:
        _dropped.pop(id(parameter), None)
    _GRAD.__set__(parameter, grad)


def _is_dropped(parameter: torch.Tensor) -> bool:
    found = _dropped.get(id(parameter))
    return found is not None and found() is parameter


def _check_reader(parameter: torch.Tensor, reader: FrameType) -> None:
    """Raises FitstepError for a reader that would take None for the truth."""
    name = reader.f_code.co_name
    if name == "zero_grad":
        if reader.f_locals.get("set_to_none", True):
            del _dropped[id(parameter)]  # None is the truth from now on.
        return
    if name == _TAKES_ALONG or str(reader.f_globals.get("__name__")).startswith("fitstep."):
        return
    raise FitstepError(
        f"p.grad of a parameter of shape {tuple(parameter.shape)} is read behind a compiled step, "
        "which has used this gradient and dropped it",
        where=user_location(),
        todo="pass keep_grads=True, or read it within the step",
    )
