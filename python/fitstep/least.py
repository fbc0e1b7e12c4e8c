"""The least budget: proven, and found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch

from . import _core
from .errors import BudgetTooSmall
from .homes import FREE_HOMES

if TYPE_CHECKING:
    from collections.abc import Callable

    from .planned import Planned
    from .session import Session

# What planning looks for: the best plan, any plan, or the least capacity that has one, which a
# BudgetTooSmall says.
LooksFor = Literal["plan", "any", "least"]

_MOST_TRIES = 4


def floor_of(session: Session, planned: list[Planned]) -> int:
    """No budget below this works for these variants: what BudgetTooSmall would name."""
    heights = []
    for one in planned:
        outcome = _core.plan_step(one.step, torch.get_num_threads(), free_options(session, one))
        heights.append(outcome[1] if outcome[0] == "too small" else 0)
    outside = max(one.external_bytes for one in planned)
    return session.budget_for(max(heights), outside)


def free_options(session: Session, one: Planned) -> dict[str, Any]:
    """For the whole frontier, before homes have been chosen."""
    free = FREE_HOMES if session.below.host_budget_bytes and not session.is_open else {}
    return {**session.plan_options(one, 0), **free}


def least_for(session: Session, planned: list[Planned], floor_bytes: int) -> int:
    """Takes the least budget found for these variants, which BudgetTooSmall would name."""
    session.take_budget(floor_bytes)
    try:
        session.plan(planned, replan=False)
    except BudgetTooSmall as too_small:
        session.take_budget(too_small.least_found_bytes or floor_bytes)
    return session.budget_bytes


def with_least(
    session: Session, error: BudgetTooSmall, plan: Callable[[], list[Planned]]
) -> BudgetTooSmall:
    """The error with the least budget that is found. Beside a disk tier it is tried: with a smaller
    budget the tier's pieces are smaller and copies slower, so that other plans are found."""
    if session.looks_for != "plan":
        return error
    asked, may_change = session.budget_bytes, not session.is_open
    found = max(asked, error.floor_bytes)

    def least(looks_for: LooksFor) -> int | None:
        """What BudgetTooSmall says; None if there is a plan."""
        if may_change:
            session.take_budget(found)
        session.looks_for = looks_for
        try:
            plan()
        except BudgetTooSmall as again:
            return again.least_found_bytes
        return None

    try:
        for _ in range(_MOST_TRIES):
            found = least("least") or found
            if not (session.below.has_disk and may_change) or least("any") is None:
                break
    finally:
        session.looks_for = "plan"
        if may_change:
            session.take_budget(asked)
    return BudgetTooSmall(error.budget_bytes, error.floor_bytes, found, error.culprits)


def with_policy(
    session: Session,
    error: BudgetTooSmall,
    new: list[Planned],
    plan: Callable[[], list[Planned]],
) -> BudgetTooSmall:
    """The error with the name of the policy that was asked for, and whether "auto" fits."""
    policy = session.settings.policy
    if policy == "auto" or session.looks_for != "plan":
        return error
    session.looks_for = "any"
    fits = True
    try:
        for one in new:
            one.policy = "auto"
        plan()
    except BudgetTooSmall:
        fits = False
    finally:
        session.looks_for = "plan"
        for one in new:
            one.policy = policy
    return BudgetTooSmall(
        error.budget_bytes,
        error.floor_bytes,
        error.least_found_bytes,
        error.culprits,
        policy,
        auto_fits=fits,
    )
