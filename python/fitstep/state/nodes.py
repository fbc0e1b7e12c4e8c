"""The nouns of discovery: nodes (containers), places (where a tensor is), reach (all of it).

    train_step ──closure──> model ──__dict__──> _parameters ──"weight"──> Parameter
                 node                node          node        place: closure.model.weight

A node is one mutable container that a step function can reach; its entries are read and written
through its form. A tuple is no node, as nothing in it can change: what it holds belongs to the
entry of the node that holds the tuple.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import EnumMeta
from typing import Any, Literal

import torch

from fitstep.state.forms import Entry, Form, SetForm, attributes_of

Role = Literal["parameter", "buffer", "optimizer_state", "group", "grad", "attribute", "other"]
Style = Literal["attribute", "item", "modules"]


@dataclass(slots=True, eq=False)
class Node:
    """One mutable container within reach."""

    form: Form
    container: Any
    owner: object  # The object, function or class whose state this is.
    above: Above | None  # The entry that it hangs on; None for a root.
    root: str = ""  # Where `above` is None: the beginning of the path.
    style: Style = "attribute"
    role: Role = "other"

    def entries(self) -> list[Entry]:
        """All entries as they are now."""
        return self.form.entries(self.container)

    def path(self, names: dict[int, str]) -> str:
        """How a user would write this container; `names` are those of tensors used as keys."""
        return self.root if self.above is None else self.above.path(names)

    def entry_path(self, key: object, names: dict[int, str]) -> str:
        """How a user would write one entry."""
        start = self.path(names)
        if isinstance(self.form, SetForm):
            return f"an element of {start}"
        if isinstance(key, torch.Tensor):
            return f"{start}[{names.get(id(key), 'a tensor')}]"
        if self.style == "item":
            return f"{start}[{key!r}]"
        if self.style == "modules" and str(key).isdigit():
            return f"{start}[{key}]"
        return f"{start}.{key}" if start else str(key)


@dataclass(slots=True, eq=False)
class Above:
    """An entry of a node, and what has to be written behind it to come to a value within."""

    node: Node
    key: object
    rest: str = ""

    def path(self, names: dict[int, str]) -> str:
        """The path of the value."""
        return (self.node.entry_path(self.key, names) + self.rest).lstrip(".")

    def module_table(self) -> Node | None:
        """The attributes of a module, if this is one of its three tables of named things."""
        if self.rest or not isinstance(self.node.owner, torch.nn.Module):
            return None
        return self.node if self.key in ("_parameters", "_buffers", "_modules") else None


@dataclass(slots=True, eq=False)
class Place:
    """Where a tensor is: in the entry `above`, or in a tuple there; or the gradient of `leaf`."""

    tensor: torch.Tensor
    role: Role
    above: Above
    leaf: torch.Tensor | None = None


@dataclass(slots=True, eq=False)
class Reach:
    """Everything that a step function can reach."""

    function: Any
    nodes: list[Node] = field(default_factory=list)
    tensors: list[Place] = field(default_factory=list)
    modules: list[tuple[str, torch.nn.Module]] = field(default_factory=list)  # Roots only.
    optimizers: list[tuple[str, torch.optim.Optimizer]] = field(default_factory=list)
    schedulers: list[tuple[str, Any]] = field(default_factory=list)
    generators: list[tuple[str, Any]] = field(default_factory=list)  # torch, random or numpy.
    caches: list[Any] = field(default_factory=list)  # functools.lru_cache wrappers.
    unshaped: list[torch.Tensor] = field(default_factory=list)  # Of lazy modules.
    large: list[Node] = field(default_factory=list)  # Of what they hold not all was visited.
    huge: list[Node] = field(default_factory=list)  # Of what they hold nothing was.
    names: dict[int, str] = field(default_factory=dict)  # id of a tensor -> its best path.

    def name(self, tensor: torch.Tensor) -> str:
        """The best path of a tensor within reach, for messages."""
        return self.names.get(id(tensor)) or f"a tensor of shape {tuple(tensor.shape)}"

    def unique(self, *roles: Role) -> list[Place]:
        """One place for each tensor (the first found), of the given roles or of any."""
        first: dict[int, Place] = {}
        for place in self.tensors:
            if not roles or place.role in roles:
                first.setdefault(id(place.tensor), place)
        return list(first.values())

    def leaves(self) -> list[Place]:
        """One place for each leaf tensor that can own a gradient: the parameters come first."""
        first = self.unique("parameter")
        known = {id(place.tensor) for place in first}
        others = (p for p in self.unique() if id(p.tensor) not in known)
        return first + [p for p in others if is_leaf(p.tensor) and _may_have_grad(p.tensor)]


def tables_in(huge: list[Node]) -> Iterator[tuple[Any, Any]]:
    """Lists, dicts and attributes that containers hold, or tuples in them, and copies of these."""
    for node in huge:
        for _, held in node.entries():
            for value in held if type(held) is tuple else (held,):
                table: Any = value if type(value) in (dict, list) else None
                if type(value).__dictoffset__ and not isinstance(value, torch.Tensor | type):
                    table = attributes_of(value)
                if table is not None:
                    yield table, table.copy()


LARGE = 4096  # Of containers with more entries a walk visits only tensors and modules.
HUGE = 100_000  # Of those with more, `undo.py` looks one level deep.


def is_leaf(tensor: torch.Tensor) -> bool:
    """Whether a tensor can own a gradient. Some views raise when they are asked."""
    try:
        return bool(tensor.is_leaf)
    except RuntimeError:
        return False


def _may_have_grad(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad or tensor.grad is not None


_NUMBER_TYPES = frozenset(
    (
        bool,
        int,
        float,
        complex,
        str,
        bytes,
        type(None),
        torch.dtype,
        torch.device,
        torch.memory_format,
        torch.layout,
        range,
        slice,
    )
)


def is_number_type(kind: type) -> bool:
    """Whether objects of a class are numbers in the wide sense: they cannot change, only be
    replaced. Numbers, flags, strings, None, enum members, numpy scalars."""
    is_plain = kind in _NUMBER_TYPES or issubclass(kind, (int, float, str))
    return is_plain or is_enum(kind) or is_numpy_scalar(kind)


def is_enum(kind: type) -> bool:
    """Whether instances of a class are enum members."""
    return isinstance(kind, EnumMeta)


@functools.cache
def is_array_type(kind: type) -> bool:
    """Whether a class is numpy's arrays or derived from them, without importing numpy."""
    return any(base.__module__ == "numpy" and base.__name__ == "ndarray" for base in kind.__mro__)


def is_array(value: object) -> bool:
    """Whether a value is a numpy array, without importing numpy."""
    kind: Any = type(value)
    return is_array_type(kind)


def is_numpy_scalar(kind: type) -> bool:
    """Whether a class is one of numpy's scalar types, without importing numpy."""
    if not (kind.__module__ or "").startswith("numpy"):  # ctypes makes classes of no module.
        return False
    return any(b.__module__ == "numpy" and b.__name__ == "generic" for b in kind.__mro__)
