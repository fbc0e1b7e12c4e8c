"""Parameters and buffers of lazy modules before their first batch: they have no shape yet."""

from __future__ import annotations

from typing import Any

import torch

from fitstep import _core

UNSHAPED = torch.nn.parameter.UninitializedParameter, torch.nn.parameter.UninitializedBuffer
_C: Any = torch._C


class UnshapedState:
    """Such a tensor as it is when this is made. Its first batch gives it a shape and a class."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor, self._kind = tensor, type(tensor)
        with _C.DisableTorchFunctionSubclass(), _core.NotFollowed():
            self._data, self._version = tensor.data, tensor._version
        self._autograd = _core.Autograd(tensor)

    def has_changed(self) -> bool:
        """Whether it has a shape now."""
        return type(self._tensor) is not self._kind

    def restore(self) -> None:
        """It has none, as before."""
        tensor = self._tensor
        if not self.has_changed():
            return
        self._autograd.put_back(tensor)
        tensor.grad = None
        tensor.data = self._data
        tensor.__class__ = self._kind
        _C._autograd._unsafe_set_version_counter((tensor,), (self._version,))
