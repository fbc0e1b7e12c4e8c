"""Planning: the budgets of a session, and what the planner is asked for its programs.

Planning        budgets, homes, programs --> plans within them, or BudgetTooSmall
home_tiers.py   before there is an arena: which homes are below
least.py        where nothing fits: the least budget; what Session calls
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch

from . import _core
from .below import Below, Links
from .budget import asked_bytes, joined, written
from .describe import describe
from .errors import BudgetTooSmall, PlanFileError
from .homes import Homes
from .planned import Planned, external_bytes_of
from .settings import Settings

# What planning looks for: the best plan, any plan, or the least capacity that has one, which a
# BudgetTooSmall says.
LooksFor = Literal["plan", "any", "least"]


class Planning:
    """Of one session. All sizes are in bytes."""

    def __init__(self, settings: Settings, device: Any) -> None:
        self.settings = settings
        self.device = device
        self.places = Homes(device.alignment_bytes())
        self.planned: list[Planned] = []
        self.budget_bytes = 0
        self.outside_bytes = 0  # What a GPU holds beside tensors: it counts in the budget.
        self.below = Below()
        self.looks_for: LooksFor = "plan"
        self.arena_bytes: int | None = None  # The capacity that there is; None: yet to be opened.
        self.next_capacity = 0  # Of the plans that were found last.
        self._make_below: Callable[[int], Below] = lambda _: Below()
        self._least_capacity = 0  # Of the variants that were planned last and do not fit.

    @property
    def is_free(self) -> bool:
        """Whether the budget is what plain PyTorch needs, whatever that is: then all fits."""
        asked = written("budget", self.settings.budget)
        return not asked.bytes and (asked.percent == 0 or asked.percent >= 100)

    @property
    def tensor_bytes(self) -> int:
        return max(self.budget_bytes - self.outside_bytes, 0)  # What of the budget is for tensors.

    @property
    def around_bytes(self) -> int:
        """What of the budget is neither the arena's nor that of tensors outside."""
        parts = self.split()
        around = parts.reserve_bytes + parts.host_bytes + parts.staging_bytes
        return around + self.outside_bytes

    def split(self, external_bytes: int = 0) -> _core.Budget:
        """What of the budget is for what."""
        return _core.split_budget(self.tensor_bytes, self._beside(external_bytes))

    def _beside(self, external_bytes: int) -> _core.BesideArena:
        alignment = self.device.alignment_bytes()
        return _core.BesideArena(external_bytes, self.below.pieces, alignment)

    def set_budget(self, plain_peak_bytes: int, links: Links) -> None:
        """The budgets in bytes, from what the user gave; also what copies between tiers cost."""
        self._make_below = partial(Below.of, self.settings, plain_peak_bytes, links)
        self.outside_bytes = self.device.outside_bytes()
        self.take_budget(self.asked_bytes(plain_peak_bytes))

    def asked_bytes(self, plain_peak_bytes: int) -> int:
        """Of the budget that the user gave."""
        return asked_bytes(self.settings.budget, plain_peak_bytes, self.outside_bytes)

    def take_budget(self, budget_bytes: int) -> None:
        """Another budget, with the tiers below as they are beside that one."""
        self.budget_bytes = budget_bytes
        self.below = self._make_below(self.tensor_bytes)

    def capacity_for(self, planned: list[Planned]) -> int:
        return self.split(external_bytes_of(planned)).capacity_bytes

    def budget_for(self, height_bytes: int, external_bytes: int) -> int:
        """The least budget that leaves a capacity of `height_bytes`."""
        beside = self._beside(external_bytes)
        return _core.budget_for(height_bytes, beside) + self.outside_bytes

    def forget(self, one: Planned | None) -> None:
        """It is never run again."""
        self.planned = [other for other in self.planned if other is not one]

    def plan(self, new: list[Planned], *, replan: bool) -> list[Planned]:
        """Plans `new`, and with `replan` all others again, with homes where they are.

        Raises BudgetTooSmall with the largest floor of all that do not fit.
        """
        every = self.planned + new
        external_bytes = external_bytes_of(every)
        capacity = self.capacity_for(every)
        if self.arena_bytes is not None:
            capacity = min(capacity, self.arena_bytes)
        todo = every if replan else new
        self._least_capacity = 0
        plans: list[Planned] = []
        failed: list[BudgetTooSmall] = []
        # The last one usually needs most; once its least is known, others are quick.
        for i, one in enumerate(todo if self.looks_for != "least" else reversed(todo)):
            # A given plan is for the homes that there were when it was read.
            given = one.given_plan if one in new else None
            try:
                plan = self._plan_one(one, given, capacity, external_bytes, (i, len(todo)))
            except BudgetTooSmall as error:
                failed.append(error.with_traceback(None))  # Its frames hold the step's.
                continue
            plans.append(one.with_plan(plan, given))
        if failed:
            least = joined(failed).least_found_bytes or 0
            # Without slack alignment and reserve show.
            if self.is_free and self.arena_bytes is None and least > self.budget_bytes:
                self.budget_bytes = least
                return self.plan(new, replan=replan)
            raise joined(failed)  # In no variable: then it would hold its frames, and they it.
        self.next_capacity = capacity
        return plans

    def _plan_one(
        self,
        one: Planned,
        given: Any,
        capacity: int,
        external_bytes: int,
        position: tuple[int, int],
    ) -> Any:
        if given is not None:
            if given.program_hash() != one.step.hash():
                raise PlanFileError(
                    "the plan file is for another program: the step function, the shapes, the "
                    "optimizer or PyTorch changed since it was saved",
                    todo="compile without plan= and save the new plan",
                )
            return given
        outcome = self.ask(one, self.options(one, capacity, position))
        if outcome[0] == "fits":
            return outcome[1]
        if outcome[0] == "too small":
            least = floor = outcome[1]
        else:
            least, floor = outcome[1], outcome[2]
        # All variants have to fit.
        self._least_capacity = max(self._least_capacity, least or floor)
        raise BudgetTooSmall(
            self.budget_bytes,
            self.budget_for(floor, external_bytes),
            self.budget_for(least, external_bytes) if least else None,
            [describe(one.step, c) for c in outcome[-1]],
        )

    def ask(self, one: Planned, options: dict[str, Any]) -> Any:
        """What the planner answers."""
        return _core.plan_step(one.step, torch.get_num_threads(), options)

    def options(
        self, one: Planned, capacity: int, position: tuple[int, int] = (0, 1)
    ) -> dict[str, Any]:
        """The question: `position` of how many, for who watches."""
        progress = self.settings.progress
        done, every = position

        def show(share: float) -> None:
            if progress is not None:
                progress("planning", (done + share) / every)

        return {
            **self.places.options(),
            **self.below.plan_options(),
            "capacity_bytes": capacity,
            "looks_for": self.looks_for,
            "least_bytes": self._least_capacity,
            "says_least": self.settings.budget is None,
            "seed": self.settings.seed,
            "effort": self.settings.effort,
            "policy": one.policy,
            "progress": show if progress is not None else None,
        }
