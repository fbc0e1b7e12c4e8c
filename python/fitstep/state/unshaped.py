"""Saves and restores parameters and buffers of lazy modules, which have no shape before the first
batch."""

from __future__ import annotations

from typing import Any

import torch

from fitstep import _core

UNSHAPED = torch.nn.parameter.UninitializedParameter, torch.nn.parameter.UninitializedBuffer
_C: Any = torch._C


def hooks_of(tensor: torch.Tensor) -> list[dict[Any, Any]]:
    """The two dicts of hooks of the tensor's gradient; empty if there are none."""
    with _C.DisableTorchFunctionSubclass():
        return [tensor._backward_hooks or {}, tensor._post_accumulate_grad_hooks or {}]


class UnshapedState:
    """Saves a tensor without a shape. The first batch gives it a shape and another class."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor, self._kind = tensor, type(tensor)
        with _C.DisableTorchFunctionSubclass(), _core.NotFollowed():
            self._data, self._version = tensor.data, tensor._version
        self._autograd = _core.Autograd(tensor)
        self._hooks = [dict(hooks) for hooks in hooks_of(tensor)]

    def has_changed(self) -> bool:
        """Whether the tensor has a shape now, or other hooks."""
        return type(self._tensor) is not self._kind or hooks_of(self._tensor) != self._hooks

    def restore(self) -> None:
        """Takes shape, class and new hooks away again."""
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
