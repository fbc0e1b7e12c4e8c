"""A variant of a step on its way from a recording to something that runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from . import _core
from .settings import Settings


@dataclass(eq=False)
class Planned:
    """A lowered recording with its plan, ready to run."""

    step: Any  # _core.StepProgram
    plan: Any = None  # _core.Plan
    variant: Any = None  # _core.Variant
    external_bytes: int = 0  # Inputs, outputs and closed-over tensors, which count in the peak.
    policy: str = "auto"
    given_plan: Any = None  # A plan from a file, to be used as it is.
    has_graph: bool = False  # Runs as one graph where that can be.
    has_looked: bool = False  # At what codes make of what it evicts.

    @classmethod
    def of(cls, step: Any, settings: Settings, given_plan: Any = None) -> Planned:
        """Yet to be planned. A graph has copies of what it reads and returns."""
        copies = 2 if settings.cuda_graph else 1
        return cls(
            step,
            external_bytes=copies * step.external_bytes(),
            policy=settings.policy,
            given_plan=given_plan,
            has_graph=settings.cuda_graph,
        )

    def with_plan(self, plan: Any, given_plan: Any) -> Planned:
        """The same step with another plan, which has yet to be made ready."""
        return replace(self, plan=plan, variant=None, given_plan=given_plan, has_looked=False)

    def make_ready(self, homes: Any, bottom_bytes: int) -> None:
        """Verifies the plan and makes the variant that runs it."""
        self.variant = _core.Variant(self.step, self.plan, homes, bottom_bytes, self.has_graph)

    def take_over(self, new: Planned) -> None:
        """Runs by the plan of `new` from now on, which is the same step."""
        self.step, self.plan, self.variant = new.step, new.plan, new.variant
        self.given_plan, self.has_looked = new.given_plan, new.has_looked


def external_bytes_of(planned: list[Planned]) -> int:
    return max((one.external_bytes for one in planned), default=0)
