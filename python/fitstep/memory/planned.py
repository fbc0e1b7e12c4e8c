"""Planned: a program with its plan, and with the C++ variant that runs it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from .. import _core
from .settings import Settings


@dataclass(eq=False)
class Planned:
    """A program, its plan once there is one, and the variant that runs it."""

    step: Any  # _core.StepProgram
    plan: Any = None  # _core.Plan
    variant: Any = None  # _core.Variant
    external_bytes: int = 0  # Inputs, outputs and constants, which count in the budget.
    policy: str = "auto"
    given_plan: Any = None  # A plan from a file, used as it is.
    has_graph: bool = False  # Runs as one CUDA graph where possible.
    has_looked: bool = False  # Codes for its copies were sampled, or are not wanted.

    @classmethod
    def of(cls, step: Any, settings: Settings, given_plan: Any = None) -> Planned:
        """One without a plan. A CUDA graph needs copies of inputs and outputs."""
        copies = 2 if settings.cuda_graph else 1
        return cls(
            step,
            external_bytes=copies * step.external_bytes(),
            policy=settings.policy,
            given_plan=given_plan,
            has_graph=settings.cuda_graph,
        )

    def with_plan(self, plan: Any, given_plan: Any) -> Planned:
        """The same program with another plan, not ready to run yet."""
        return replace(self, plan=plan, variant=None, given_plan=given_plan, has_looked=False)

    def make_ready(self, homes: Any, bottom_bytes: int) -> None:
        """Verifies the plan and creates the variant that runs it."""
        self.variant = _core.Variant(self.step, self.plan, homes, bottom_bytes, self.has_graph)

    def take_over(self, new: Planned) -> None:
        """Uses the plan and variant of `new` from now on, which is the same program."""
        self.step, self.plan, self.variant = new.step, new.plan, new.variant
        self.given_plan, self.has_looked = new.given_plan, new.has_looked


def external_bytes_of(planned: list[Planned]) -> int:
    return max((one.external_bytes for one in planned), default=0)
