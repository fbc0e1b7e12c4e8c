"""What a step function may return besides tensors: dataclasses of them, and constants.

Out(loss=t, name="a")   ->  a pytree node: t is an output, "a" a constant, Out is made anew
Box(t), {t}, (t for ..) ->  refused: what holds a tensor and is kept would keep a fake
"""

from __future__ import annotations

import dataclasses
from typing import Any

from torch.utils._pytree import GetAttrKey, register_pytree_node, tree_flatten, tree_map

from .errors import CaptureError
from .state import Reach, forms
from .state.nodes import is_number
from .state.walk import Walk


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
    return tree_map(_in_parts, result)


def _in_parts(leaf: Any) -> Any:
    parts = _fields(leaf)
    if parts is None:
        return leaf
    return _Parts(type(leaf), {name: in_parts(value) for name, value in parts.items()})


def _fields(leaf: Any) -> dict[str, Any] | None:
    """The state of a dataclass object if it is its fields and nothing else."""
    if not dataclasses.is_dataclass(leaf) or isinstance(leaf, type):
        return None
    if forms.plain_form_of(leaf) is not None:
        return None
    found = dict(forms.attributes_of(leaf) or {}) | dict(forms.SlotsForm().entries(leaf))
    names = [field.name for field in dataclasses.fields(leaf)]
    return {name: found[name] for name in names} if found.keys() == set(names) else None


def check_constant(leaf: Any, name: str, reach: Reach, numbers: Any) -> None:
    """Raises CaptureError for a result that is no tensor but holds one, or may hold one."""
    if is_number(leaf):
        if any(numbers.tensor_of(one) is not None for one in tree_flatten(leaf)[0]):
            raise _holds(leaf, name, "the value of a tensor")
        return
    if hasattr(type(leaf), "__next__"):
        raise _holds(leaf, name, "what nobody can see without drawing it")
    inside = Reach(None)
    walk = Walk(inside)
    walk.leave_out(reach)  # The step's own model may be returned: its tensors are put back.
    walk.add_root([leaf], "result")
    if inside.tensors:
        raise _holds(leaf, name, "a tensor")
    for _node, _key, value in inside.numbers():
        values = value if isinstance(value, tuple | frozenset) else (value,)
        if any(numbers.tensor_of(one) is not None for one in values):
            raise _holds(leaf, name, "the value of a tensor")


def _holds(leaf: Any, name: str, what: str) -> CaptureError:
    return CaptureError(
        f"the step function returns a {type(leaf).__name__} ({name}) that holds {what}; a captured "
        "step could not make it anew",
        todo="return tensors, or dicts, lists, tuples and dataclasses of them",
    )
