"""Dataclass objects that a step function returns, as pytree nodes: their tensors are detached."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.utils._pytree import GetAttrKey, register_pytree_node, tree_leaves, tree_map

from .state import forms


class _Parts:
    """A dataclass object in a result, as a pytree node. The user's class is not registered: how
    the user's own pytrees look is none of our business."""

    def __init__(self, kind: type, parts: dict[str, Any]) -> None:
        self.kind = kind
        self.parts = parts


def _flatten(node: _Parts) -> tuple[list[Any], tuple[type, tuple[str, ...]]]:
    return list(node.parts.values()), (node.kind, tuple(node.parts))


def _unflatten(values: Any, context: tuple[type, tuple[str, ...]]) -> Any:
    kind, names = context
    made: Any = object.__new__(kind)
    for name, value in zip(names, values, strict=True):
        object.__setattr__(made, name, value)  # Also where the dataclass is frozen.
    return made


def _keyed(node: _Parts) -> tuple[list[tuple[Any, Any]], tuple[type, tuple[str, ...]]]:
    return [(GetAttrKey(name), value) for name, value in node.parts.items()], _flatten(node)[1]


register_pytree_node(_Parts, _flatten, _unflatten, flatten_with_keys_fn=_keyed)


def in_parts(result: Any) -> Any:
    """A result in which dataclass objects with tensors are pytree nodes."""
    return tree_map(_in_parts, result, is_leaf=_is_size)


def _is_size(value: Any) -> bool:
    return isinstance(value, torch.Size)  # Not a tuple of numbers afterwards.


def _in_parts(leaf: Any) -> Any:
    parts = _fields(leaf)
    if parts is None:
        return leaf
    return _Parts(type(leaf), {name: in_parts(value) for name, value in parts.items()})


def _fields(leaf: Any) -> dict[str, Any] | None:
    """The state of a dataclass object if it is its fields and nothing else."""
    if not dataclasses.is_dataclass(leaf) or isinstance(leaf, type):
        return None
    if forms.plain_form_of(type(leaf)) is not None:
        return None
    found = dict(forms.attributes_of(leaf) or {}) | dict(forms.SlotsForm().entries(leaf))
    names = [field.name for field in dataclasses.fields(leaf)]
    return {name: found[name] for name in names} if found.keys() == set(names) else None


def detached(result: Any) -> Any:
    """A result in which tensors, also those in dataclass objects, are detached."""

    def detach(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf.detach()
        return leaf

    if not any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves(in_parts(result))):
        return result
    return tree_map(detach, in_parts(result), is_leaf=_is_size)
