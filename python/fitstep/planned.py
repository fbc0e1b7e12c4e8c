"""A variant of a step on its way from a recording to something that runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(eq=False)
class Planned:
    """A lowered recording with its plan, ready to run."""

    step: Any  # _core.StepProgram
    plan: Any = None  # _core.Plan
    variant: Any = None  # _core.Variant
    external_bytes: int = 0  # Inputs, outputs and closed-over tensors, which count in the peak.
    policy: str = "auto"
    given_plan: Any = None  # A plan from a file, to be used as it is.
    has_looked: bool = False  # At what codes make of what it copies to the disk.


def external_bytes_of(planned: list[Planned]) -> int:
    return max((one.external_bytes for one in planned), default=0)
