"""Chooses codes (compression) for copies to the host and the disk, after the first step.

first step   copies are not compressed; samples of each say how small each code would make it
after it     the planner adds codes to the same plan: for each copy to the disk that gets faster,
             and with host_codes=True for each copy to the host that gets smaller
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import _core

if TYPE_CHECKING:
    from .planned import Planned
    from .session import Session


def shall_look(session: Session, one: Planned) -> bool:
    """Whether the next run of this program samples its copies."""
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
    """After that run, by the variant `looked`: replaces the plan by the same one with codes. Does
    nothing if the program was forgotten, or planned again since: then the next run samples."""
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
        pass  # The step has run; copies stay without codes.
    except _core.CoreError as error:
        if error.args[0] != "device":
            raise
