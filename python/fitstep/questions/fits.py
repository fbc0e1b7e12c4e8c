"""`fitstep.fits`: whether a budget is enough for a step, and what would be."""

from __future__ import annotations

from dataclasses import dataclass

from .. import _core
from ..base.describe import counted, format_seconds
from ..errors import BudgetTooSmall
from ..memory.planning import Least
from ..memory.profile_cache import TooLarge
from .asked import Asked

_SHOWN = 3  # Culprits in the text; `culprits` has all.


@dataclass(frozen=True)
class Fits:
    """Whether a step fits into a budget: `bool(fits)`, and `print(fits)` for the reasons."""

    fits: bool  # Whether a plan was found, so that `compile` with this budget has one, too.
    budget_bytes: int  # The budget that was asked for.
    floor_bytes: int  # Proven: no budget below this works.
    least_found_bytes: int | None  # The smallest budget for which a plan was found; None: unknown.
    plain_peak_bytes: int  # What plain PyTorch needs.
    predicted_s: float | None  # Seconds of one step within the budget; None if it does not fit.
    recomputed_ops: int | None  # Runs of ops beyond the first in one step; None as above.
    culprits: tuple[str, ...]  # The ops that set the floor, largest first, with file and line.
    seconds: float  # How long the question took, with measuring operators.

    def __bool__(self) -> bool:
        return self.fits

    def __str__(self) -> str:
        size = _core.format_bytes
        share = self.budget_bytes / max(self.plain_peak_bytes, 1)
        of_plain = f"({share:.0%} of the plain peak {size(self.plain_peak_bytes)})"
        if self.fits:
            first = f"fits in {size(self.budget_bytes)} {of_plain}: predicted "
            first += f"{format_seconds(self.predicted_s or 0)} per step, "
            first += f"{counted(self.recomputed_ops or 0, 'recompute')}"
        else:
            first = f"does not fit in {size(self.budget_bytes)} {of_plain}"
        least = ""
        if self.least_found_bytes is not None:
            least = f"smallest budget with a plan {size(self.least_found_bytes)}; "
        lines = [first, f"{least}no plan is possible below {size(self.floor_bytes)}"]
        if self.culprits:
            lines.append("most is needed at the same time by")
            lines += [f"  {line}" for line in self.culprits[:_SHOWN]]
        return "\n".join([*lines, f"asked in {self.seconds:.1f} s; nothing was changed"])


def verdict(asked: Asked, *, finds_least: bool = True, takes_first_plan: bool = False) -> Fits:
    """Plans all programs for the budget, as `compile` would. With `takes_first_plan` there must be
    a plan at once; without `finds_least` the least budget stays unknown. Both take less time."""
    planning = asked.planning
    planning.take_budget(planning.asked_bytes(asked.plain_peak_bytes))
    mark = planning.places.mark()
    try:
        plans = planning.plan(
            asked.programs,
            replan=False,
            finds_least=finds_least,
            takes_first_plan=takes_first_plan,
        )
    except BudgetTooSmall as error:
        return Fits(
            False, error.budget_bytes, error.floor_bytes, error.least_found_bytes,
            asked.plain_peak_bytes, None, None, error.culprits, 0.0,
        )  # fmt: skip
    finally:
        planning.places.back_to(mark)
    budget_bytes = planning.budget_bytes
    floor_bytes = max(
        planning.budget_for(one.plan.certificate()["floor_bytes"], one.external_bytes)
        for one in plans
    )
    found = Least(floor_bytes, None, [])
    if finds_least:
        found = planning.take_least(asked.programs)
    known = [n for n in (found.least_found_bytes, budget_bytes) if n is not None]
    steady = [plans[i] for i in asked.steady]
    return Fits(
        True, budget_bytes, found.floor_bytes, min(known) if finds_least else None,
        asked.plain_peak_bytes, sum(one.plan.certificate()["predicted_s"] for one in steady),
        sum(one.plan.run_counts(one.step)[1] for one in steady), tuple(found.culprits), 0.0,
    )  # fmt: skip


def refused_by_size(large: TooLarge) -> Fits:
    """The verdict on a step with an operator that is too large to be measured."""
    return Fits(
        False, large.budget_bytes, large.floor_bytes, None, large.plain_peak_bytes, None, None,
        large.culprits, 0.0,
    )  # fmt: skip
