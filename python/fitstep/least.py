"""The least budget: proven, and found."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from .budget import larger_than
from .errors import BudgetTooSmall
from .home_tiers import plan_with_homes
from .homes import FREE_HOMES
from .planned import Planned, external_bytes_of
from .planning import LooksFor, Planning

_MOST_TRIES = 4


def plan_or_say(planning: Planning, new: list[Planned], *, replan: bool) -> list[Planned]:
    """Plans `new`, and with `replan` all others again; the first time it also decides which homes
    are below. Raises BudgetTooSmall with the largest floor of all variants, and what would do."""
    plan = partial(plan_with_homes, planning, new, replan=replan)
    try:
        return plan()
    except BudgetTooSmall as error:
        if planning.arena_bytes is not None and planning.is_free:
            raise  # It grows; nobody asks for the least.
        if planning.is_free and (larger := larger_than(error)):
            planning.budget_bytes = larger
            return plan_or_say(planning, new, replan=replan)
        least = with_least(planning, error, plan)
        raise with_policy(planning, least, new, plan) from None


def floor_of(planning: Planning, planned: list[Planned]) -> int:
    """No budget below this works for these variants: what BudgetTooSmall would name."""
    heights = []
    for one in planned:
        outcome = planning.ask(one, free_options(planning, one))
        heights.append(outcome[1] if outcome[0] == "too small" else 0)
    return planning.budget_for(max(heights), external_bytes_of(planned))


def free_options(planning: Planning, one: Planned) -> dict[str, Any]:
    """For the whole frontier, before homes have been chosen."""
    is_free = planning.below.host_budget_bytes > 0 and planning.arena_bytes is None
    return {**planning.options(one, 0), **(FREE_HOMES if is_free else {})}


def least_for(planning: Planning, planned: list[Planned], floor_bytes: int) -> int:
    """Takes the least budget found for these variants, which BudgetTooSmall would name."""
    planning.take_budget(floor_bytes)
    try:
        plan_or_say(planning, planned, replan=False)
    except BudgetTooSmall as too_small:
        planning.take_budget(too_small.least_found_bytes or floor_bytes)
    return planning.budget_bytes


def with_least(
    planning: Planning, error: BudgetTooSmall, plan: Callable[[], list[Planned]]
) -> BudgetTooSmall:
    """The error with the least budget that is found. Beside a disk tier it is tried: with a smaller
    budget the tier's pieces are smaller and copies slower, so that other plans are found."""
    if planning.looks_for != "plan":
        return error
    asked, may_change = planning.budget_bytes, planning.arena_bytes is None
    found = max(asked, error.floor_bytes)
    known = None  # The same, where a plan has been found.

    def least(looks_for: LooksFor) -> int | None:
        """What BudgetTooSmall says, 0 if it does not know; None if there is a plan."""
        if may_change:
            planning.take_budget(found)
        planning.looks_for = looks_for
        try:
            plan()
        except BudgetTooSmall as again:
            return again.least_found_bytes or 0
        return None

    try:
        for _ in range(_MOST_TRIES):
            more = least("least")
            if more != 0:
                found = known = more or found
            if not (planning.below.has_disk and may_change) or least("any") is None:
                break
    finally:
        planning.looks_for = "plan"
        if may_change:
            planning.take_budget(asked)
    if known is not None and known <= asked:  # By luck that is not had again.
        known = None
    return BudgetTooSmall(error.budget_bytes, error.floor_bytes, known, error.culprits)


def with_policy(
    planning: Planning,
    error: BudgetTooSmall,
    new: list[Planned],
    plan: Callable[[], list[Planned]],
) -> BudgetTooSmall:
    """The error with the name of the policy that was asked for, and whether "auto" fits."""
    policy = planning.settings.policy
    if policy == "auto" or planning.looks_for != "plan":
        return error
    planning.looks_for = "any"
    fits = True
    try:
        for one in new:
            one.policy = "auto"
        plan()
    except BudgetTooSmall:
        fits = False
    finally:
        planning.looks_for = "plan"
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
