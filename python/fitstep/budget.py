"""Budgets: what the user may write, and what of it the arena gets.

budget        | inputs, outputs, constants |    arena    | reserve 1 % | host 0.1 % | staging 1 % |
host_budget   | what plans evict from the arena |                    of the disk tier, if any
disk_budget   | the same, in a file |
"""

from __future__ import annotations

from . import _core
from .errors import BudgetError, BudgetTooSmall

ALIGNMENT = 64
BLOCK_BYTES = 4096  # Of files.
_MOST_FLOORS = 4  # Budgets that are tried where any is right; more would not help.
_MOST_BYTES = 2**48  # What a process can address.


def reserve_of(budget_bytes: int, alignment: int = ALIGNMENT) -> int:
    """One percent, for requests of kernels that nobody foresaw."""
    return budget_bytes // 100 // alignment * alignment


def host_of(budget_bytes: int) -> int:
    """For the numbers that Python computes beside a step (learning rates, step counts), and for
    what capturing one takes: small tensors outside the arena."""
    return max(256, min(64 * 1024, budget_bytes // 1000 // ALIGNMENT * ALIGNMENT))


def piece_of(budget_bytes: int) -> int:
    """What one thread holds of a storage on its way to the disk tier or back."""
    return max(BLOCK_BYTES, min(1 << 20, budget_bytes // 400 // BLOCK_BYTES * BLOCK_BYTES))


def staging_of(budget_bytes: int, files: float) -> int:
    """For such pieces: two on their way to a file, two back. One percent, at most 4 MiB. Homes on
    disk have half of that beside it."""
    return int(4 * files) * piece_of(budget_bytes)


def capacity_of(
    budget_bytes: int, external_bytes: int, files: float, alignment: int = ALIGNMENT
) -> int:
    """What a budget leaves to the arena beside tensors outside it, the reserve, the host and the
    staging of a disk tier."""
    return _inside(budget_bytes, external_bytes, files, alignment) // alignment * alignment


def _inside(budget_bytes: int, external_bytes: int, files: float, alignment: int) -> int:
    inside = budget_bytes - external_bytes - host_of(budget_bytes)
    return inside - reserve_of(budget_bytes, alignment) - staging_of(budget_bytes, files)


def budget_for(
    height_bytes: int, external_bytes: int, files: float, alignment: int = ALIGNMENT
) -> int:
    """The least budget that leaves a capacity of `height_bytes`."""
    wanted = -(-height_bytes // alignment) * alignment
    budget = wanted + external_bytes
    while (missing := wanted - _inside(budget, external_bytes, files, alignment)) > 0:
        budget += missing  # No less would do: what is inside grows by at most one per byte.
    return budget


def joined(failed: list[BudgetTooSmall]) -> BudgetTooSmall:
    """One error for all variants that do not fit: what is needed is what the largest needs."""
    worst = max(failed, key=lambda error: error.floor_bytes)
    found = [error.least_found_bytes for error in failed]
    known = [least for least in found if least is not None]
    least = max(known) if len(known) == len(found) else None
    return BudgetTooSmall(worst.budget_bytes, worst.floor_bytes, least, worst.culprits)


def larger_than(error: BudgetTooSmall) -> int | None:
    """The next budget to try where any is right: an eighth more. None if that does not help."""
    tried, floor = error.budget_bytes, error.floor_bytes
    return max(floor, tried + tried // 8 + 1) if tried < _MOST_FLOORS * floor else None


def parse_budget(budget: int | str | None, plain_peak_bytes: int) -> int:
    """Bytes of a budget: an int, "6GiB", or a share of the plain peak such as "75%".

    Raises BudgetError for anything else.
    """
    return plain_peak_bytes if budget is None else _parse("budget", budget, plain_peak_bytes)


def bytes_or_share(budget: int | str | None) -> tuple[int, float]:
    """A budget that can be understood, before the plain peak is known; (0, 0) for none."""
    if budget is None:
        return 0, 0.0
    if isinstance(budget, str) and budget.strip().endswith("%"):
        return 0, float(budget.strip()[:-1]) / 100
    return parse_budget(budget, 0), 0.0


def asked_bytes(budget: int | str | None, plain_peak_bytes: int, outside_bytes: int) -> int:
    """The same with what lies outside on the device, which a number of bytes holds already."""
    beside = 0 if bytes_or_share(budget)[0] else outside_bytes
    return parse_budget(budget, plain_peak_bytes) + beside


def slack_of(budget_bytes: int) -> int:
    """What a budget grows by beyond need, so that neither this plan nor the next is a squeeze."""
    return budget_bytes // 64 + (64 << 10)


def parse_below(name: str, budget: int | str | None, plain_peak_bytes: int) -> int:
    """Bytes of `name`, the budget of a tier below, written as a budget is; 0 for none.

    Raises BudgetError for anything else.
    """
    return 0 if budget is None else _parse(name, budget, plain_peak_bytes)


def _parse(name: str, budget: int | str, plain_peak_bytes: int) -> int:
    todo = 'give bytes as an int, a size such as "6GiB", or a share such as "75%"'
    given = f"{name}={budget!r}"
    if isinstance(budget, bool) or not isinstance(budget, int | str):
        raise BudgetError(f"{given} is no number of bytes", todo=todo)
    if isinstance(budget, str) and budget.strip().endswith("%"):
        return _share(given, budget, plain_peak_bytes, todo)
    parsed = budget if isinstance(budget, int) else _size(given, budget, todo)
    if parsed <= 0:
        raise BudgetError(f"{given} is not positive", todo=todo)
    if parsed > _MOST_BYTES:
        raise BudgetError(
            f"{given} is more than any machine has, {_core.format_bytes(_MOST_BYTES)}",
            todo=todo,
        )
    return parsed


def _share(given: str, budget: str, plain_peak_bytes: int, todo: str) -> int:
    try:
        share = float(budget.strip()[:-1])
    except ValueError:
        raise BudgetError(f"{given} is no share", todo=todo) from None
    if not 0 < share <= 1000:
        raise BudgetError(f"{given} is not between 0 and 1000 %", todo=todo)
    return int(plain_peak_bytes * share / 100)


def _size(given: str, budget: str, todo: str) -> int:
    try:
        return int(_core.parse_bytes(budget.strip()))
    except _core.CoreError as error:
        raise BudgetError(f"{given}: {error.args[1]}", todo=todo) from None
