"""Which homes are below the arena: decided once, before the arena of a session is opened."""

from __future__ import annotations

import contextlib
from typing import Any

from .errors import BudgetTooSmall
from .homes import FREE_HOMES
from .planned import Planned
from .planning import Planning

_OFFLOADING = ("auto", "offload")  # Policies that may have homes below.


def plan_with_homes(planning: Planning, new: list[Planned], *, replan: bool) -> list[Planned]:
    """Plans `new` and, before there is an arena, decides where homes are; `replan`: all others
    again. Raises BudgetTooSmall."""
    if planning.arena_bytes is not None:
        return planning.plan(new, replan=replan)
    if planning.below.host_budget_bytes:
        return _with_host(planning, new)
    if planning.below.has_disk:
        return _with_disk(planning, new)
    return planning.plan(new, replan=False)


def _is_free(new: list[Planned]) -> bool:
    """Whether homes may be anywhere."""
    return new[-1].given_plan is None and new[-1].policy in _OFFLOADING


def _with_host(planning: Planning, new: list[Planned]) -> list[Planned]:
    if planning.looks_for != "least" or not _is_free(new):
        planning.places.put_below(_wanted_below(planning, new))
        try:
            return planning.plan(new, replan=False)
        except BudgetTooSmall:
            if not _is_free(new):
                raise
    # What is right for one variant was not right for another.
    planning.places.put_below(set(planning.places.by_name))
    return planning.plan(new, replan=False)


def _with_disk(planning: Planning, new: list[Planned]) -> list[Planned]:
    """In the arena; on the disk, whose copies take long, where there is no plan otherwise."""
    below, places = planning.below, planning.places
    places.put_below(set())  # As in the arena, whatever an earlier try has decided.
    if not planning.device.is_cpu():  # A GPU cannot reach a file that is mapped.
        return planning.plan(new, replan=False)
    given: Any = new[-1].given_plan
    if given is None or not given.homes_below(new[-1].step):
        has_room = places.size_on_disk() <= below.disk_budget_bytes
        if not _is_free(new) or not has_room:
            return planning.plan(new, replan=False)
        if planning.looks_for != "least":
            with contextlib.suppress(BudgetTooSmall):
                return planning.plan(new, replan=False)
    below.disk_homes_bytes = places.size_on_disk()
    every, wanted = set(places.by_name), set(places.by_name)
    if planning.looks_for != "least" or given is not None:
        wanted = _wanted_below(planning, new)
    if given is None and wanted and wanted != every:
        _put_on_disk(planning, wanted)
        with contextlib.suppress(BudgetTooSmall):
            return planning.plan(new, replan=False)
    _put_on_disk(planning, wanted if given is not None and wanted else every)
    return planning.plan(new, replan=False)


def _put_on_disk(planning: Planning, names: set[str]) -> None:
    planning.places.put_below(names, on_disk=True)
    planning.below.disk_homes_bytes = planning.places.host_bottom_bytes


def _wanted_below(planning: Planning, new: list[Planned]) -> set[str]:
    """What the last variant, which most steps run, wants to have below."""
    last = new[-1]
    if last.given_plan is not None:
        return set(last.given_plan.homes_below(last.step))
    options = {**planning.options(last, planning.capacity_for(new)), **FREE_HOMES}
    outcome = planning.ask(last, options)
    return set(outcome[1].homes_below(last.step)) if outcome[0] == "fits" else set()
