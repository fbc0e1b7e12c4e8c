"""The nouns of discovery: nodes (containers), places (where a tensor is), reach (all of it).

    train_step ──closure──> model ──__dict__──> _parameters ──"weight"──> Parameter
                 node                node          node        place: closure.model.weight

A node is one mutable container that a step function can reach; its entries are read and written
through its form. A tuple is no node, as nothing in it can change: what it holds belongs to the
entry of the node that holds the tuple.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import EnumMeta
from typing import Any, Literal

import torch

from fitstep.state.forms import Entry, Form, SetForm

Role = Literal[
    "parameter",
    "buffer",
    "optimizer_state",
    "group",
    "grad",
    "attribute",
    "closure",
    "global",
    "class",
    "default",
    "list",
    "dict",
    "tuple",
]
Owner = Literal["module", "optimizer", "scheduler", "user"]
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
    role: Role = "attribute"
    owned_by: Owner = "user"
    large: bool = False  # Data: its numbers are not looked at.
    holder: torch.Tensor | None = None  # Set when these are the Python attributes of a tensor.

    def entries(self) -> list[Entry]:
        """All entries as they are now."""
        return self.form.entries(self.container)

    def get(self, key: object) -> object:
        """One entry as it is now; KeyError if there is none."""
        return self.form.get(self.container, key)

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


@dataclass(frozen=True, slots=True)
class Above:
    """An entry of a node, and what has to be written behind it to come to a value within."""

    node: Node
    key: object
    rest: str = ""

    def path(self, names: dict[int, str]) -> str:
        """The path of the value."""
        return (self.node.entry_path(self.key, names) + self.rest).lstrip(".")


@dataclass(slots=True, eq=False)
class Place:
    """Where a tensor is. `container[key]` is the tensor; in a tuple the container is the tuple."""

    path: str
    container: Any
    key: object
    tensor: torch.Tensor
    role: Role
    above: Above  # The mutable entry that holds the tensor, or holds the tuple that does.


@dataclass(slots=True)
class Obstacle:
    """Something within reach that cannot be captured, and why."""

    path: str
    reason: str
    todo: str


@dataclass(slots=True, eq=False)
class Reach:
    """Everything that a step function can reach."""

    function: Any
    nodes: list[Node] = field(default_factory=list)
    tensors: list[Place] = field(default_factory=list)
    modules: list[tuple[str, torch.nn.Module]] = field(default_factory=list)  # Roots only.
    all_modules: list[tuple[str, torch.nn.Module]] = field(default_factory=list)
    optimizers: list[tuple[str, torch.optim.Optimizer]] = field(default_factory=list)
    schedulers: list[tuple[str, Any]] = field(default_factory=list)
    generators: list[tuple[str, Any]] = field(default_factory=list)  # torch, random or numpy.
    caches: list[Any] = field(default_factory=list)  # functools.lru_cache wrappers.
    obstacles: list[Obstacle] = field(default_factory=list)
    edges: dict[int, list[Above]] = field(default_factory=dict)  # All entries holding a container.
    names: dict[int, str] = field(default_factory=dict)  # id of a tensor -> its best path.

    def name(self, tensor: torch.Tensor) -> str:
        """The best path of a tensor within reach, for messages."""
        return self.names.get(id(tensor), f"a tensor of shape {tuple(tensor.shape)}")

    def unique(self, *roles: Role) -> list[Place]:
        """One place for each tensor (the first found), of the given roles or of any."""
        wanted = [p for p in self.tensors if not roles or p.role in roles]
        return list({id(place.tensor): place for place in reversed(wanted)}.values())[::-1]

    def leaves(self) -> list[Place]:
        """One place for each leaf tensor that can own a gradient: the parameters come first."""
        first = self.unique("parameter")
        known = {id(place.tensor) for place in first}
        others = (p for p in self.unique() if id(p.tensor) not in known)
        return first + [p for p in others if p.tensor.is_leaf and _may_have_grad(p.tensor)]

    def numbers(self) -> Iterator[tuple[Node, object, object]]:
        """(node, key, value) of every entry that is a number in the sense of `is_number`."""
        for node in self.nodes:
            if node.large:
                continue
            for key, value in node.entries():
                if is_number(value):
                    yield node, key, value


LARGE = 4096  # Containers with more entries are data: only tensors and modules are looked for.


def _may_have_grad(tensor: torch.Tensor) -> bool:
    return tensor.requires_grad or tensor.grad is not None


_NUMBER_TYPES = (
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


def is_number(value: object) -> bool:
    """Whether a value is a Python number in the wide sense: it cannot change, only be replaced.

    Numbers, flags, strings, None, enum members, numpy scalars, and tuples of such.
    """
    kind = type(value)
    if kind in _NUMBER_TYPES:
        return True
    if isinstance(value, tuple | frozenset):
        return len(value) <= 64 and all(is_number(item) for item in value)
    return isinstance(value, int | float | str) or is_enum(kind) or is_numpy_scalar(kind)


def is_enum(kind: type) -> bool:
    """Whether instances of a class are enum members."""
    return isinstance(kind, EnumMeta)


def is_numpy_scalar(kind: type) -> bool:
    """Whether a class is one of numpy's scalar types, without importing numpy."""
    if not kind.__module__.startswith("numpy"):
        return False
    return any(b.__module__ == "numpy" and b.__name__ == "generic" for b in kind.__mro__)
