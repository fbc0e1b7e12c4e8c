"""Budgets as users write them, in bytes. _core.split_budget() says what the arena gets of one."""

from __future__ import annotations

from .. import _core
from ..errors import BudgetError


def written(name: str, budget: int | str | None) -> _core.WrittenBudget:
    """Parses bytes (an int), "6GiB", or "75%" of the plain peak. None is a budget of 0 bytes.

    Raises BudgetError for anything else; `name` is the argument in its message.
    """
    if budget is None:
        return _core.WrittenBudget()
    todo = f'write bytes as an int, {name}="6GiB", or {name}="75%" of what plain PyTorch needs'
    given = f"{name}={budget!r}"
    if isinstance(budget, bool) or not isinstance(budget, int | str):
        raise BudgetError(f"{given} is not a budget", todo=todo)
    try:
        return _core.parse_budget(str(budget), given)
    except _core.CoreError as error:
        raise BudgetError(error.args[1], todo=todo) from None


def asked_bytes(budget: int | str | None, plain_peak_bytes: int, outside_bytes: int) -> int:
    """Bytes of the device's budget. None is what plain PyTorch needs. A share and None do not count
    `outside_bytes` (what a GPU holds beside tensors) yet, so it is added; a size does."""
    if budget is None:
        return plain_peak_bytes + outside_bytes
    asked = written("budget", budget)
    return asked.of(plain_peak_bytes) + (0 if asked.bytes else outside_bytes)


def slack_of(budget_bytes: int) -> int:
    """Bytes that a growing budget gets beyond need, so that the next growth comes later."""
    return budget_bytes // 64 + (64 << 10)
