"""The least budget: proven, and found."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from . import _core
from .errors import BudgetTooSmall

if TYPE_CHECKING:
    from collections.abc import Callable

    from .session import Planned, Session

_MOST_TRIES = 4


def floor_of(session: Session, planned: list[Planned]) -> int:
    """No budget below this works for these variants: what BudgetTooSmall would name."""
    heights = []
    for one in planned:
        outcome = _core.plan_step(one.step, torch.get_num_threads(), session.free_options(one))
        heights.append(outcome[1] if outcome[0] == "too small" else 0)
    outside = max(one.external_bytes for one in planned)
    return session.budget_for(max(heights), outside)


def least_for(session: Session, planned: list[Planned], floor_bytes: int) -> int:
    """Takes the least budget found for these variants, which BudgetTooSmall would name."""
    session.take_budget(floor_bytes)
    try:
        session.plan(planned, replan=False)
    except BudgetTooSmall as too_small:
        session.take_budget(too_small.least_found_bytes or floor_bytes)
    return session.budget_bytes


def tried(
    session: Session, error: BudgetTooSmall, plan: Callable[[], list[Planned]]
) -> BudgetTooSmall:
    """The error with a least budget at which planning was tried. With a smaller one the disk
    tier's pieces are smaller and copies slower, so that other plans are found."""
    least = error.least_found_bytes
    asked, below = session.budget_bytes, session.below
    if least is None or not below.has_disk or least <= asked:
        return error
    for _ in range(_MOST_TRIES):
        session.take_budget(least)
        try:
            plan()
            break
        except BudgetTooSmall as again:
            least = max(again.least_found_bytes or least, least)
    session.take_budget(asked)
    return BudgetTooSmall(error.budget_bytes, error.floor_bytes, least, error.culprits)
