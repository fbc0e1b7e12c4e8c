"""`fitstep.curve`: step time for each budget."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .. import _core
from ..base.describe import format_seconds
from ..memory.planned import Planned
from .asked import Asked


@dataclass(frozen=True)
class CurvePoint:
    """The fastest plan that was found for one budget."""

    budget_bytes: int
    predicted_s: float  # Seconds of one step.
    recomputed_ops: int  # Runs of ops beyond the first, in one step.


@dataclass(frozen=True)
class Curve:
    """Memory against time, for the steady step. `print` it for a table."""

    floor_bytes: int  # Proven: no budget below this works. BudgetTooSmall names the same number.
    plain_peak_bytes: int  # What plain PyTorch needs.
    bound_s: float  # Proven: no plan is predicted faster than these seconds.
    points: tuple[CurvePoint, ...]  # The largest budget first.

    def __str__(self) -> str:
        size = _core.format_bytes
        lines = [
            f"plain peak {size(self.plain_peak_bytes)}, floor {size(self.floor_bytes)}, "
            f"bound {format_seconds(self.bound_s)}",
            f"{'budget':>12} {'of plain':>9} {'predicted':>12} {'recomputed':>11}",
        ]
        for point in self.points:
            share = point.budget_bytes / max(self.plain_peak_bytes, 1)
            took = format_seconds(point.predicted_s)
            row = f"{size(point.budget_bytes):>12} {share:>9.0%} {took:>12}"
            lines.append(f"{row} {point.recomputed_ops:>11}")
        return "\n".join(lines)


def curve_of(asked: Asked) -> Curve:
    """Plans the steady step for all budgets, and looks for the smallest with plans for all."""
    planning = asked.planning
    steady = [asked.programs[i] for i in asked.steady]
    fronts = [[_Plan.of(plan, one) for plan in planning.frontier(one)] for one in steady]
    least = planning.take_least(asked.programs)
    outside = max(one.external_bytes for one in asked.programs)
    points: dict[int, CurvePoint] = {}  # The fastest of each budget comes first.
    for height_bytes in sorted({plan.height_bytes for front in fronts for plan in front})[::-1]:
        within = [[p for p in front if p.height_bytes <= height_bytes] for front in fronts]
        if not all(within):
            break  # A part of the step needs more.
        best = [min(front, key=lambda plan: plan.predicted_s) for front in within]
        wanted = planning.budget_for(max(plan.height_bytes for plan in best), outside)
        budget = max(least.least_found_bytes or least.floor_bytes, wanted)
        predicted_s = sum(plan.predicted_s for plan in best)
        points.setdefault(budget, CurvePoint(budget, predicted_s, sum(p.again for p in best)))
    bound = sum(min((plan.bound_s for plan in front), default=0.0) for front in fronts)
    return Curve(least.floor_bytes, asked.plain_peak_bytes, bound, tuple(points.values()))


@dataclass(frozen=True)
class _Plan:
    """What a point of the curve takes from a plan."""

    height_bytes: int
    predicted_s: float
    bound_s: float
    again: int  # Runs of ops beyond the first.

    @classmethod
    def of(cls, plan: Any, one: Planned) -> _Plan:
        certificate = plan.certificate()
        again = plan.run_counts(one.step)[1]
        return cls(
            certificate["height_bytes"], certificate["predicted_s"], certificate["bound_s"], again
        )
