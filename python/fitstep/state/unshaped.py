"""Parameters and buffers of lazy modules before their first batch: they have no shape yet."""

from __future__ import annotations

from typing import Any

import torch

from fitstep import _core

UNSHAPED = torch.nn.parameter.UninitializedParameter, torch.nn.parameter.UninitializedBuffer
_C: Any = torch._C


def hooks_of(tensor: torch.Tensor) -> list[dict[Any, Any]]:
    """Of its gradient, by kind; empty where there are none."""
    with _C.DisableTorchFunctionSubclass():
        return [tensor._backward_hooks or {}, tensor._post_accumulate_grad_hooks or {}]


class UnshapedState:
    """Such a tensor as it is when this is made. Its first batch gives it a shape and a class."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor, self._kind = tensor, type(tensor)
        with _C.DisableTorchFunctionSubclass(), _core.NotFollowed():
            self._data, self._version = tensor.data, tensor._version
        self._autograd = _core.Autograd(tensor)
        self._hooks = [dict(hooks) for hooks in hooks_of(tensor)]

    def has_changed(self) -> bool:
        """Whether it has a shape now, or other hooks."""
        return type(self._tensor) is not self._kind or hooks_of(self._tensor) != self._hooks

    def restore(self) -> None:
        """It has neither, as before."""
        tensor = self._tensor
        for hooks, was in zip(hooks_of(tensor), self._hooks, strict=True):
            if hooks != was:
                hooks.clear()
                hooks.update(was)
        with _C.DisableTorchFunctionSubclass():
            if torch.Tensor.size(tensor) != self._data.size():
                self._autograd.put_back(tensor)
                tensor.grad = None
                tensor.data = self._data
                _C._autograd._unsafe_set_version_counter((tensor,), (self._version,))
            if type(tensor) is not self._kind:
                tensor.__class__ = self._kind
