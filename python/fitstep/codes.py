"""Codes of copies to the disk tier: found out in the first step, chosen behind it.

first step   copies go as they are; of each, samples say what the codes would make of it
behind it    the planner gives a code to each copy for which that pays; addresses stay
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

from . import _core

if TYPE_CHECKING:
    from .planned import Planned
    from .session import Session


def shall_look(session: Session, one: Planned) -> bool:
    """Whether the next run is the one that finds out what codes would make of its copies."""
    if one.has_looked:
        return False
    may_code = session.below.codecs and one.given_plan is None and _core.may_code(one.policy)
    one.has_looked = not may_code or not one.plan.offloaded()["disk_written_bytes"]
    return not one.has_looked


def choose_codes(session: Session, one: Planned) -> None:
    """After that run."""
    one.has_looked = True
    options = session.plan_options(one, 0)
    with contextlib.suppress(MemoryError):  # The step has happened; copies go on as they are.
        one.plan = one.variant.choose_codes(torch.get_num_threads(), options) or one.plan
