"""Operators of users and other packages that may be a part of programs."""

from __future__ import annotations

from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from . import _core
from .errors import FitstepError


def declare_pure(*operators: Any) -> None:
    """Has steps plan these operators as they plan PyTorch's own: measured, recomputed where that
    is cheaper than to keep, with what they make at planned addresses.

    Without it a custom operator runs between the programs of a step, once per call and in its turn,
    as with plain PyTorch: whatever it does is right, and what it makes is beside the budget.

    You promise that what a kernel makes follows from its arguments alone, bit for bit; that it
    reads and changes nothing else, as settings, closures or autocast; that it keeps nothing that it
    was given, has made or has requested. fitstep does not check that.

    Args:
        operators: names ("mylib::attention") of operators that are registered, or what
            `torch.library.custom_op` or `torch.ops` give. All overloads are meant.

    Raises:
        FitstepError: there is no such operator.
    """
    names = [_name_of(one) for one in operators]
    for name in names:
        _core.declare_pure(name)


def unplanned(names: frozenset[str]) -> str:
    """What who asks for less than is planned hears of operators that are not."""
    return (
        f"{', '.join(sorted(names))} run between the programs of the step, and what lives there is "
        "kept: fitstep.declare_pure() has operators planned whose results follow from their "
        "arguments alone."
    )


def _name_of(operator: Any) -> str:
    name = operator if isinstance(operator, str) else ""
    if isinstance(operator, CustomOpDef):
        name = operator._qualname
    elif isinstance(operator, torch._ops.OpOverload):
        name = operator._schema.name
    elif isinstance(operator, torch._ops.OpOverloadPacket):
        name = operator._qualified_op_name
    space, _, rest = name.partition("::")
    if not rest or not hasattr(getattr(torch.ops, space), rest):
        raise FitstepError(
            f"{operator!r} is no operator", todo='register it first, and give "namespace::name"'
        )
    return name
