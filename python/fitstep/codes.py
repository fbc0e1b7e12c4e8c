"""Codes of copies to tiers below: found out in the first step, chosen behind it.

first step   copies go as they are; of each, samples say what the codes would make of it
behind it    the planner makes the same plan with a code for each copy to the disk for which that
             pays, and for each copy to the host that it makes smaller, if the user wants that
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from . import _core

if TYPE_CHECKING:
    from .planned import Planned
    from .session import Session


def shall_look(session: Session, one: Planned) -> bool:
    """Whether the next run is the one that finds out what codes would make of its copies."""
    if one.has_looked:
        return False
    below, copied = session.planning.below, one.plan.offloaded()
    on_disk = below.disk_codes and _core.may_code(one.policy)
    may_code = (on_disk and copied["disk_written_bytes"]) or (
        below.codes_on_host and copied["evicted_bytes"]
    )
    one.has_looked = one.given_plan is not None or not may_code
    return not one.has_looked


def choose_codes(session: Session, one: Planned, looked: Any) -> None:
    """After that run, of the variant `looked`: has the program run by the same plan with the codes
    that pay. Not where it is forgotten; where all have been made anew since, it looks again."""
    known = any(one is other for other in session.planning.planned)
    if not known or one.variant is not looked:
        return
    one.has_looked = True
    step, below = looked.sampled_program(), session.planning.below
    machine = _core.with_homes_on_disk(below.machine(), below.disk_homes_bytes)
    codes = below.disk_codes, below.codes_on_host
    plan = _core.with_codes(step, one.plan, machine, one.policy, *codes)
    if plan is None:
        return
    coded = replace(one, step=step, plan=plan, variant=None)
    try:
        session.run_by(one, coded)
    except MemoryError:
        pass  # The step has happened; copies go on as they are.
    except _core.CoreError as error:
        if error.args[0] != "device":
            raise
