"""Names of what lies in one arena: each stands for one tensor, as long as that lives."""

from __future__ import annotations

import weakref
from collections.abc import Callable

import torch


class Names:
    """No two tensors that live have the same."""

    def __init__(self) -> None:
        self._name_of: dict[int, str] = {}
        self._tensor_of: dict[str, weakref.ref[torch.Tensor]] = {}

    def unique(self, tensor: torch.Tensor, proposal: str) -> str:
        """The name of a tensor as long as it lives."""
        known = self._name_of.get(id(tensor))
        if known is not None and self._is_of(known, tensor):
            return known
        name, count = proposal, 1
        while not self._is_free(name):
            name, count = f"{proposal} ({count + 1})", count + 1
        self._tensor_of[name] = weakref.ref(tensor)
        self._name_of[id(tensor)] = name
        return name

    def _is_free(self, name: str) -> bool:
        return name not in self._tensor_of or self._tensor_of[name]() is None

    def _is_of(self, name: str, tensor: torch.Tensor) -> bool:
        return name in self._tensor_of and self._tensor_of[name]() is tensor

    def free(self, is_gone: Callable[[torch.Tensor], bool]) -> None:
        """Names of such tensors may be given to others."""
        for name, reference in list(self._tensor_of.items()):
            tensor = reference()
            if tensor is None or is_gone(tensor):
                del self._tensor_of[name]
