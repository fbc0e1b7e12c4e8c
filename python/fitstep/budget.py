"""Budgets that the user writes; what of one the arena gets, _core.split_budget() says."""

from __future__ import annotations

from . import _core
from .errors import BudgetError


def written(name: str, budget: int | str | None) -> _core.WrittenBudget:
    """An int, "6GiB", or a share of the plain peak such as "75%", understood; None is nothing.

    Raises BudgetError for anything else.
    """
    if budget is None:
        return _core.WrittenBudget()
    todo = 'give bytes as an int, a size such as "6GiB", or a share such as "75%"'
    given = f"{name}={budget!r}"
    if isinstance(budget, bool) or not isinstance(budget, int | str):
        raise BudgetError(f"{given} is no number of bytes", todo=todo)
    try:
        return _core.parse_budget(str(budget), given)
    except _core.CoreError as error:
        raise BudgetError(error.args[1], todo=todo) from None


def asked_bytes(budget: int | str | None, plain_peak_bytes: int, outside_bytes: int) -> int:
    """Of the budget of the device, with what lies outside there, which a number of bytes holds
    already; without a budget what plain PyTorch needs."""
    if budget is None:
        return plain_peak_bytes + outside_bytes
    asked = written("budget", budget)
    return asked.of(plain_peak_bytes) + (0 if asked.bytes else outside_bytes)


def slack_of(budget_bytes: int) -> int:
    """What a budget grows by beyond need, so that neither this plan nor the next is a squeeze."""
    return budget_bytes // 64 + (64 << 10)
