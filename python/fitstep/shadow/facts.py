"""What a shadow needs to know about operators: which calls count, and which numbers they carry.

The numbers of a call are listed in the order of the operator's schema, one entry for each number
that stands alone and for each entry of a list of numbers; left out arguments count with their
defaults. An entry that is no number of the optimizer's (a size, a dtype, a memory format) is None:
it holds its place and is never compared.

    aten::addcdiv_(self, a, b, *, value=-0.1)         (-0.1,)
    aten::div.Tensor(self, 0.5)                       (0.5,)   a number where a tensor may stand
    aten::zeros([4, 8], dtype=torch.float32)          (None, None, None)
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import torch

Number = bool | int | float
Numbers = tuple[Number | None, ...]

_GEOMETRY = re.compile(r"SymInt(?:\[\d*\])?\??\s+(\w+)")
_ENUMERATED = (torch.dtype, torch.layout, torch.memory_format)
_ENUMERATED_TYPES = ("ScalarType", "Layout", "MemoryFormat")
# Give back the storage of their argument although the schema does not say so.
_HIDDEN_VIEWS = ("aten::_unsafe_view", "aten::lift")


class OperatorFacts:
    """What the schema of one operator says."""

    def __init__(self, schema: Any) -> None:
        self.name = full_name(schema)
        geometry = set(_GEOMETRY.findall(str(schema)))
        # (name, default, whether its numbers are the optimizer's), in the order of the schema.
        self._arguments: list[tuple[str, Any, bool]] = []
        self._written = [
            (index, argument.name)
            for index, argument in enumerate(schema.arguments)
            if argument.alias_info is not None and argument.alias_info.is_write
        ]
        for argument in schema.arguments:
            kind = str(argument.real_type)
            compared = argument.name not in geometry and not any(
                name in kind for name in _ENUMERATED_TYPES
            )
            default = argument.default_value if argument.has_default_value() else None
            self._arguments.append((argument.name, default, compared))
        aliases = [r.alias_info is not None for r in schema.returns]
        makes_tensors = any("Tensor" in str(r.type) for r in schema.returns)
        is_view = makes_tensors and (all(aliases) or schema.name in _HIDDEN_VIEWS)
        # Views, reads of a number and the profiler's marks leave no op behind.
        self.is_silent = schema.name.startswith(("profiler::", "prim::")) or (
            not self._written and (is_view or not makes_tensors)
        )
        self.reads_number = schema.name == "aten::_local_scalar_dense"
        self.makes_literal = schema.name == "aten::lift_fresh"

    def numbers(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Numbers:
        """The numbers of one call."""
        found: list[Number | None] = []
        given = len(args)
        for index, (name, default, compared) in enumerate(self._arguments):
            value = args[index] if index < given else kwargs.get(name, default)
            if value is None or isinstance(value, torch.Tensor):
                continue
            if isinstance(value, (float, int)):  # A bool is an int.
                found.append(value if compared else None)
            elif isinstance(value, (list, tuple)):
                found += (n if compared else None for n in value if isinstance(n, (float, int)))
            elif isinstance(value, _ENUMERATED):
                found.append(None)
        return tuple(found)

    def written(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        """The tensors that one call writes."""
        found = [args[i] if i < len(args) else kwargs.get(name) for i, name in self._written]
        return tensors_in(found)


def tensors_in(values: Iterable[Any]) -> list[torch.Tensor]:
    """The tensors among arguments, those in lists too, in order."""
    found = []
    for value in values:
        if isinstance(value, torch.Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += [entry for entry in value if isinstance(entry, torch.Tensor)]
    return found


def full_name(schema: Any) -> str:
    """ "aten::add_.Tensor"; "aten::sqrt" where the overload has no name."""
    overload = schema.overload_name
    return f"{schema.name}.{overload}" if overload else str(schema.name)


def plain_name(name: str) -> str:
    """A recorded name in the form of `full_name`."""
    return name.removesuffix(".default")


@cache
def facts_of(func: Any) -> OperatorFacts:
    """The facts of a `torch.ops` overload."""
    return OperatorFacts(func._schema)


@cache
def facts_named(name: str) -> OperatorFacts:
    """The facts of an operator by its full name. KeyError if torch has no such operator."""
    base = name.partition(".")[0]
    for schema in torch._C._jit_get_schemas_for_operator(base):
        if full_name(schema) == name:
            return OperatorFacts(schema)
    raise KeyError(name)


def same_number(a: Number | None, b: Number | None) -> bool:
    """Whether two numbers do the same to the bits: 0.0 and -0.0 do not, two NaNs do."""
    if a is None or b is None:
        return a is b
    if a != b:
        return a != a and b != b
    return a != 0 or math.copysign(1.0, a) == math.copysign(1.0, b)
