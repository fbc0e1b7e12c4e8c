"""`fitstep.curve`: step time for each budget."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _core
from ..base.describe import format_seconds
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
    planning, steady = asked.planning, asked.programs[-1]
    plans = planning.frontier(steady)
    least = planning.take_least(asked.programs)
    outside = max(one.external_bytes for one in asked.programs)
    points: dict[int, CurvePoint] = {}  # `plans` has the fastest plan of each budget first.
    for plan in plans:
        wanted = planning.budget_for(plan.certificate()["height_bytes"], outside)
        budget = max(least.least_found_bytes or least.floor_bytes, wanted)
        predicted_s = plan.certificate()["predicted_s"]
        again = plan.run_counts(steady.step)[1]
        points.setdefault(budget, CurvePoint(budget, predicted_s, again))
    bound = min((plan.certificate()["bound_s"] for plan in plans), default=0.0)
    peak_bytes = steady.step.plain_peak_bytes()
    return Curve(least.floor_bytes, peak_bytes, bound, tuple(points.values()))
