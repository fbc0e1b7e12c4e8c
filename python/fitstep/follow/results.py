"""Detaches the tensors in what a step function returns."""

from __future__ import annotations

import dataclasses
from typing import Any

import torch
from torch.utils import _pytree

from ..state import forms


def detached(result: Any, within: tuple[int, ...] = ()) -> Any:
    """The result with detached tensors, also inside pytrees and dataclass objects. An object that
    holds no tensor, or that holds itself, is returned as it is. `within`: ids of the containers
    around `result`."""
    if id(result) in within:
        return result
    within = (*within, id(result))
    if isinstance(result, torch.Tensor):
        return result.detach()
    fields = _fields(result)
    if fields is not None:
        values = [detached(value, within) for value in fields.values()]
        is_same = all(a is b for a, b in zip(values, fields.values(), strict=True))
        return result if is_same else _make(type(result), dict(zip(fields, values, strict=True)))
    # tree_flatten() makes a reference cycle with its argument, which would keep graphs alive.
    node = _pytree.SUPPORTED_NODES.get(_pytree._get_node_type(result))
    if node is None:
        return result
    parts, context = node.flatten_fn(result)
    values = [detached(part, within) for part in parts]
    is_same = all(a is b for a, b in zip(values, parts, strict=True))
    return result if is_same else node.unflatten_fn(values, context)


def _fields(result: Any) -> dict[str, Any] | None:
    """The fields of a dataclass object; None if the object has other attributes, too."""
    if not dataclasses.is_dataclass(result) or isinstance(result, type):
        return None
    if forms.plain_form_of(type(result)) is not None:
        return None
    found = dict(forms.attributes_of(result) or {}) | dict(forms.SlotsForm().entries(result))
    names = [field.name for field in dataclasses.fields(result)]
    return {name: found[name] for name in names} if found.keys() == set(names) else None


def _make(kind: type, fields: dict[str, Any]) -> Any:
    made: Any = object.__new__(kind)
    for name, value in fields.items():
        object.__setattr__(made, name, value)  # Works for frozen dataclasses, too.
    return made
