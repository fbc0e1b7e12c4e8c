"""Data of discovery: Node (a container), Place (where a tensor is), Reach (all nodes and places).

    train_step ──closure──> model ──__dict__──> _parameters ──"weight"──> Parameter
                 node                node          node        place: closure.model.weight

A node is one mutable container that a step function can reach; its form reads and writes its
entries. A tuple cannot change, so it is no node: its values belong to the entry that holds the
tuple.
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
    above: Above | None  # The entry that holds this container; None for a root.
    root: str = ""  # The beginning of the path, if `above` is None.
    style: Style = "attribute"
    role: Role = "other"

    def entries(self) -> list[Entry]:
        return self.form.entries(self.container)

    def path(self, names: dict[int, str]) -> str:
        """The container's path as a user writes it; `names` has tensors that are keys, by id."""
        return self.root if self.above is None else self.above.path(names)

    def entry_path(self, key: object, names: dict[int, str]) -> str:
        """The path of one entry as a user writes it."""
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
    """An entry of a node, and the `rest` of the path from this entry to a value inside it."""

    node: Node
    key: object
    rest: str = ""

    def path(self, names: dict[int, str]) -> str:
        return (self.node.entry_path(self.key, names) + self.rest).lstrip(".")

    def module_table(self) -> Node | None:
        """The module's node, if this entry is its _parameters, _buffers or _modules."""
        if self.rest or not isinstance(self.node.owner, torch.nn.Module):
            return None
        return self.node if self.key in ("_parameters", "_buffers", "_modules") else None


@dataclass(slots=True, eq=False)
class Place:
    """Where a tensor is: in the entry `above`, in a tuple there, or the gradient of `leaf`."""

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
    large: list[Node] = field(default_factory=list)  # Only tensors and modules in them are visited.
    huge: list[Node] = field(default_factory=list)  # Likewise; they are too large to walk later.
    names: dict[int, str] = field(default_factory=dict)  # id of a tensor -> its best path.

    def name(self, tensor: torch.Tensor) -> str:
        """The best path of a tensor within reach, for messages; its shape if it has no path."""
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
    """(table, copy) of each list, dict, set and attribute dict that huge containers hold, also in
    other containers; of objects that attributes hold, only what is in a container."""
    seen = set()
    todo: list[Any] = [held for node in huge for _, held in node.entries()]
    while todo:
        value: Any = todo.pop()
        kind = type(value)
        if kind is tuple:
            todo += value
            continue
        table: Any = value if kind in _TABLES else None
        if table is None and kind.__dictoffset__ and not isinstance(value, torch.Tensor | type):
            table = attributes_of(value)
        if table is None or id(table) in seen:
            continue
        seen.add(id(table))
        yield table, table.copy()
        held = table.values() if isinstance(table, dict) else table
        if kind in _TABLES:
            todo += held
        else:
            todo += [one for one in held if type(one) in _TABLES or type(one) is tuple]


def is_plain_data(entries: list[tuple[Any, Any]]) -> bool:
    """Whether values are numbers and texts alone, in lists, dicts, sets and tuples of any depth:
    then tables_in() saves all that a step can change."""
    todo, seen = [held for _, held in entries], set()
    while todo:
        value: Any = todo.pop()
        kind = type(value)
        if kind in _NUMBER_TYPES or (kind in _HOLDERS and id(value) in seen):
            continue
        if kind not in _HOLDERS:
            return False
        seen.add(id(value))
        todo += value.values() if kind is dict else value
    return True


_TABLES = frozenset((list, dict, set))
_HOLDERS = _TABLES | {tuple}
LARGE = 4096  # In containers with more entries, a walk visits only tensors and modules.
HUGE = 100_000  # In containers with more entries, `undo.py` saves tables_in() them.


def is_leaf(tensor: torch.Tensor) -> bool:
    """Whether a tensor can own a gradient; False for views whose `is_leaf` raises."""
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
    """Whether objects of a class are immutable values: numbers, flags, strings, None, enum members
    or numpy scalars."""
    is_plain = kind in _NUMBER_TYPES or issubclass(kind, (int, float, str))
    return is_plain or is_enum(kind) or is_numpy_scalar(kind)


def is_enum(kind: type) -> bool:
    return isinstance(kind, EnumMeta)


@functools.cache
def is_array_type(kind: type) -> bool:
    """Whether a class is np.ndarray or derived from it, without importing numpy."""
    return any(base.__module__ == "numpy" and base.__name__ == "ndarray" for base in kind.__mro__)


def is_array(value: object) -> bool:
    """Whether a value is a numpy array, without importing numpy."""
    kind: Any = type(value)
    return is_array_type(kind)


def is_numpy_scalar(kind: type) -> bool:
    """Whether a class is one of numpy's scalar types, without importing numpy."""
    if not (kind.__module__ or "").startswith("numpy"):  # Classes of ctypes may have no module.
        return False
    return any(b.__module__ == "numpy" and b.__name__ == "generic" for b in kind.__mro__)
