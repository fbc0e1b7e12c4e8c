"""Unique names for the tensors in one arena; a name is free again when its tensor is gone."""

from __future__ import annotations

from collections.abc import Callable

import torch

from .. import _core


class Names:
    def __init__(self) -> None:
        self._name_of: dict[int, str] = {}
        self._tensor_of: dict[str, _core.WeakStorage] = {}

    def unique(self, tensor: torch.Tensor, proposal: str) -> str:
        """The name of the tensor: its earlier one, or `proposal`, with " (2)" if that is taken."""
        known = self._name_of.get(id(tensor))
        if known is not None and self._is_of(known, tensor):
            return known
        name, count = proposal, 1
        while not self._is_free(name):
            name, count = f"{proposal} ({count + 1})", count + 1
        self._tensor_of[name] = _core.WeakStorage(tensor)
        self._name_of[id(tensor)] = name
        return name

    def _is_free(self, name: str) -> bool:
        return name not in self._tensor_of or self._tensor_of[name]() is None

    def _is_of(self, name: str, tensor: torch.Tensor) -> bool:
        alive = self._tensor_of[name]() if name in self._tensor_of else None
        return alive is not None and _core.storage_id(alive) == _core.storage_id(tensor)

    def free(self, is_gone: Callable[[torch.Tensor], bool]) -> None:
        """Frees the names of tensors that are gone, or for which `is_gone` is true."""
        for name, reference in list(self._tensor_of.items()):
            tensor = reference()
            if tensor is None or is_gone(tensor):
                del self._tensor_of[name]
