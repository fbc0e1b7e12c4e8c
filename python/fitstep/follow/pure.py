"""declare_pure(): custom operators that fitstep may plan like PyTorch's own."""

from __future__ import annotations

from typing import Any

import torch
from torch._library.custom_ops import CustomOpDef

from .. import _core
from ..errors import FitstepError


def declare_pure(*operators: Any) -> None:
    """Lets fitstep plan these custom operators like PyTorch's own: their results get planned
    addresses inside the budget, and are recomputed if that is cheaper than keeping them.

    Call it before `compile`, if `BudgetTooSmall` names a custom operator. Without it a custom
    operator runs between the programs of a step, as in plain PyTorch, outside the budget.

    You promise three things, which fitstep does not check. The operator's results depend on its
    arguments alone, bit for bit. It reads and changes nothing else, such as settings or closures.
    It keeps no reference to its arguments, its results or its temporary memory.

    Args:
        operators: names ("mylib::attention") of registered operators, or the objects that
            `torch.library.custom_op` or `torch.ops` return. All overloads are declared.

    Raises:
        FitstepError: there is no such operator.
    """
    names = [_name_of(one) for one in operators]
    for name in names:
        _core.declare_pure(name)


def unplanned(names: frozenset[str]) -> str:
    """The note of a BudgetTooSmall about custom operators."""
    return (
        f"{', '.join(sorted(names))} run between the programs of the step, which keeps all tensors "
        "that are alive there. If their results depend on their arguments alone, call "
        "fitstep.declare_pure() with their names before compile."
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
            f"{operator!r} is no operator", todo='register it first, and pass "namespace::name"'
        )
    return name
