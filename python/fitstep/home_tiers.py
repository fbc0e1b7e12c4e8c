"""Which homes are below the arena: decided once, before the arena of a session is opened."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import torch

from . import _core
from .errors import BudgetTooSmall
from .homes import FREE_HOMES

if TYPE_CHECKING:
    from .planned import Planned
    from .session import Session

_OFFLOADING = ("auto", "offload")  # Policies that may have homes below.


def plan_with_homes(session: Session, new: list[Planned], *, replan: bool) -> list[Planned]:
    """Plans `new` and, before there is an arena, decides where homes are; `replan`: all others
    again. Raises BudgetTooSmall."""
    if session.is_open:
        return session.plan_all(new, replan=replan)
    if session.below.host_budget_bytes:
        return _with_host(session, new)
    if session.below.has_disk:
        return _with_disk(session, new)
    return session.plan_all(new, replan=False)


def _is_free(new: list[Planned]) -> bool:
    """Whether homes may be anywhere."""
    return new[-1].given_plan is None and new[-1].policy in _OFFLOADING


def _with_host(session: Session, new: list[Planned]) -> list[Planned]:
    if session.looks_for != "least" or not _is_free(new):
        session.places.put_below(_wanted_below(session, new))
        try:
            return session.plan_all(new, replan=False)
        except BudgetTooSmall:
            if not _is_free(new):
                raise
    # What is right for one variant was not right for another.
    session.places.put_below(set(session.homes))
    return session.plan_all(new, replan=False)


def _with_disk(session: Session, new: list[Planned]) -> list[Planned]:
    """In the arena; on the disk, whose copies take long, where there is no plan otherwise."""
    below, places = session.below, session.places
    places.put_below(set())  # As in the arena, whatever an earlier try has decided.
    if not session.device.is_cpu():  # A GPU cannot reach a file that is mapped.
        return session.plan_all(new, replan=False)
    given: Any = new[-1].given_plan
    if given is None or not given.homes_below(new[-1].step):
        has_room = places.size_on_disk() <= below.disk_budget_bytes
        if not _is_free(new) or not has_room:
            return session.plan_all(new, replan=False)
        if session.looks_for != "least":
            with contextlib.suppress(BudgetTooSmall):
                return session.plan_all(new, replan=False)
    below.disk_homes_bytes = places.size_on_disk()
    every, wanted = set(session.homes), set(session.homes)
    if session.looks_for != "least" or given is not None:
        wanted = _wanted_below(session, new)
    if given is None and wanted and wanted != every:
        _put_on_disk(session, wanted)
        with contextlib.suppress(BudgetTooSmall):
            return session.plan_all(new, replan=False)
    _put_on_disk(session, wanted if given is not None and wanted else every)
    return session.plan_all(new, replan=False)


def _put_on_disk(session: Session, names: set[str]) -> None:
    session.places.put_below(names, on_disk=True)
    session.below.disk_homes_bytes = session.places.host_bottom_bytes


def _wanted_below(session: Session, new: list[Planned]) -> set[str]:
    """What the last variant, which most steps run, wants to have below."""
    last = new[-1]
    if last.given_plan is not None:
        return set(last.given_plan.homes_below(last.step))
    options = {**session.plan_options(last, session.capacity_for(new)), **FREE_HOMES}
    outcome = _core.plan_step(last.step, torch.get_num_threads(), options)
    return set(outcome[1].homes_below(last.step)) if outcome[0] == "fits" else set()
