"""Planning: the budgets of a session, and the questions that it asks the planner.

budgets, homes, programs --> _core.BudgetQuestion --> plans within them, or BudgetTooSmall
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from . import _core
from .below import Below, Links
from .budget import asked_bytes, written
from .describe import describe
from .errors import BudgetTooSmall, PlanFileError
from .homes import Homes
from .planned import Planned, external_bytes_of
from .settings import Settings

_SAVE_ANEW = "compile without plan= and save the new plan"


class Planning:
    """The budgets and plans of one session. All sizes are in bytes."""

    def __init__(self, settings: Settings, device: Any) -> None:
        self.settings = settings
        self.device = device
        self.places = Homes(device.alignment_bytes())
        self.planned: list[Planned] = []
        self.budget_bytes = 0
        self.outside_bytes = 0  # Of the budget, what a GPU holds beside tensors.
        self.below = Below()
        self.arena_bytes: int | None = None  # Of the open arena; None while none is open.
        self.next_capacity = 0  # Of the plans that were found last.
        self._make_below: Callable[[int], Below] = lambda _: Below()

    @property
    def is_free(self) -> bool:
        """Whether the budget is at least the peak of plain PyTorch: then it may grow."""
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
        """The parts of the budget: arena, reserve, host and staging."""
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
        """Sets the budget, and measures the tiers below for it."""
        self.budget_bytes = budget_bytes
        self.below = self._make_below(self.tensor_bytes)

    def budget_for(self, height_bytes: int, external_bytes: int) -> int:
        """The least budget that leaves a capacity of `height_bytes`."""
        beside = self._beside(external_bytes)
        return _core.budget_for(height_bytes, beside) + self.outside_bytes

    def forget(self, one: Planned | None) -> None:
        """Drops a program that is never run again."""
        self.planned = [other for other in self.planned if other is not one]

    def plan(self, new: list[Planned], *, replan: bool) -> list[Planned]:
        """Plans `new`, and with `replan` all others again. While no arena is open, it also chooses
        which homes are below.

        Raises BudgetTooSmall with the largest floor and the least budget that works for all, and
        PlanFileError for a given plan of another program, or with homes elsewhere.
        """
        every = self.planned + new
        todo = every if replan else new
        # A given plan is used for a new program only: later homes may lie elsewhere.
        given = [one.given_plan if one in new else None for one in todo]
        question = self._question(external_bytes_of(every))
        for one, plan in zip(todo, given, strict=True):
            if plan is not None and plan.program_hash() != one.step.hash():
                raise PlanFileError(
                    "the plan file is for another program: the step function, the shapes, the "
                    "optimizer or PyTorch changed since it was saved",
                    todo=_SAVE_ANEW,
                )
            question.add(one.step, one.policy, plan)
        answer = question.answer()
        if isinstance(answer, _core.Refusal):
            raise self._too_small(answer, todo)
        for one, plan in zip(todo, given, strict=True):
            if plan is not None and not _core.has_homes_at(one.step, plan, answer.places):
                raise PlanFileError(
                    "the plan file has parameters, buffers or optimizer state at other addresses "
                    "than this arena",
                    todo=_SAVE_ANEW,
                )
        if self.arena_bytes is None:
            self._take(answer)
        self.next_capacity = answer.capacity_bytes
        made = zip(todo, answer.plans, given, strict=True)
        return [one.with_plan(plan, given_plan) for one, plan, given_plan in made]

    def _take(self, fitting: _core.Fitting) -> None:
        if fitting.budget_bytes != self.budget_bytes:
            self.take_budget(fitting.budget_bytes)
        self.places.take(fitting.places)
        self.below.disk_homes_bytes = self.places.host_bottom_bytes if self.places.on_disk else 0

    def _too_small(self, refusal: _core.Refusal, todo: list[Planned]) -> BudgetTooSmall:
        binding = todo[refusal.binding].step
        return BudgetTooSmall(
            refusal.budget_bytes,
            refusal.floor_budget_bytes,
            refusal.least_budget_bytes,
            [describe(binding, culprit) for culprit in refusal.culprits],
            self.settings.policy,
            auto_fits=refusal.does_auto_fit,
        )

    def take_least(self, planned: list[Planned]) -> tuple[int, int]:
        """Sets the budget to the least that is found for these programs; returns the floor and that
        budget, as BudgetTooSmall names them."""
        question, nothing = self._question(external_bytes_of(planned)), 1
        question.is_free, question.budget_bytes = False, nothing
        here = self.below.machine()  # No tier is measured for a budget of nothing.
        question.machine_for = lambda n: self._machine_for(n) if n > nothing else here
        for one in planned:
            question.add(one.step, one.policy, None)
        answer = question.answer()
        floor = least = nothing
        if isinstance(answer, _core.Refusal):
            floor = answer.floor_budget_bytes
            least = answer.least_budget_bytes or floor
        self.take_budget(least)
        return floor, least

    def frontier(self, one: Planned) -> list[_core.Plan]:
        """Plans of one program for all budgets, while no arena is open."""
        return _core.frontier_of(one.step, self._question(one.external_bytes))

    def _question(self, external_bytes: int) -> _core.BudgetQuestion:
        settings, progress = self.settings, self.settings.progress
        question = _core.BudgetQuestion(
            threads=torch.get_num_threads(),
            seed=settings.seed,
            effort=settings.effort,
            codes_on_disk=self.below.disk_codes,
            codes_on_host=self.below.codes_on_host,
            progress=progress and partial(progress, "planning"),
        )
        question.places = self.places.places()
        question.budget_bytes, question.outside_bytes = self.budget_bytes, self.outside_bytes
        question.external_bytes = external_bytes
        question.alignment_bytes = self.device.alignment_bytes()
        question.is_free, question.arena_bytes = self.is_free, self.arena_bytes
        question.may_have_homes_on_disk = self.device.is_cpu()  # A GPU cannot reach mapped files.
        question.machine_for = self._machine_for
        return question

    def _machine_for(self, tensor_bytes: int) -> _core.Machine:
        below = self.below
        if tensor_bytes != self.tensor_bytes and self.arena_bytes is None:
            below = self._make_below(tensor_bytes)
        return below.machine()
