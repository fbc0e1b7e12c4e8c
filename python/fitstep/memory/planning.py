"""Planning: the budgets of a session in bytes, and its questions to the planner.

budgets, homes, programs --> _core.BudgetQuestion --> plans within them, or BudgetTooSmall
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from .. import _core
from ..base.describe import describe, describe_op
from ..errors import BudgetTooSmall, PlanFileError
from .below import Below, Links
from .budget import asked_bytes, written
from .homes import Homes
from .planned import Planned, external_bytes_of
from .settings import Settings

_SAVE_ANEW = "call compile without plan=, and save the new plan with step.plan.save(path)"


class Least(NamedTuple):
    """What is known about the smallest budget of some programs."""

    floor_bytes: int  # Proven: no budget below it works.
    least_found_bytes: int | None  # The smallest for which plans were found.
    culprits: list[str]  # The ops that set the floor, as in BudgetTooSmall.


class Planning:
    """The budgets and plans of one session; all sizes are in bytes."""

    def __init__(self, settings: Settings, device: Any) -> None:
        self.settings = settings
        self.device = device
        self.places = Homes(device.alignment_bytes())
        self.planned: list[Planned] = []
        self.budget_bytes = 0
        self.outside_bytes = 0  # Part of the budget: what a GPU holds beside tensors.
        self.below = Below()
        self.arena_bytes: int | None = None  # Of the open arena; None while none is open.
        self.next_capacity = 0  # Bytes of arena that the plans found last were made for.
        self._make_below: Callable[[int], Below] = lambda _: Below()

    @property
    def is_free(self) -> bool:
        """Whether the budget may grow: it is None, or a share of 100 % or more."""
        asked = written("budget", self.settings.budget)
        return not asked.bytes and (asked.percent == 0 or asked.percent >= 100)

    @property
    def tensor_bytes(self) -> int:
        return max(self.budget_bytes - self.outside_bytes, 0)

    @property
    def around_bytes(self) -> int:
        """Bytes of the budget that are neither in the arena nor inputs, outputs or constants."""
        parts = self.split()
        around = parts.reserve_bytes + parts.small_tensor_bytes + parts.staging_bytes
        return around + self.outside_bytes

    def split(self, external_bytes: int = 0) -> _core.Budget:
        return _core.split_budget(self.tensor_bytes, self._beside(external_bytes))

    def _beside(self, external_bytes: int) -> _core.BesideArena:
        alignment = self.device.alignment_bytes()
        return _core.BesideArena(external_bytes, self.below.pieces, alignment)

    def set_budget(self, plain_peak_bytes: int, links: Links) -> None:
        """Turns the user's budgets into bytes, and measures what copies between tiers cost."""
        self._make_below = partial(Below.of, self.settings, plain_peak_bytes, links)
        self.outside_bytes = self.device.outside_bytes()
        self.take_budget(self.asked_bytes(plain_peak_bytes))

    def asked_bytes(self, plain_peak_bytes: int) -> int:
        return asked_bytes(self.settings.budget, plain_peak_bytes, self.outside_bytes)

    def take_budget(self, budget_bytes: int) -> None:
        """Sets the budget, and measures the tiers below for it."""
        self.budget_bytes = budget_bytes
        self.below = self._make_below(self.tensor_bytes)

    def budget_for(self, height_bytes: int, external_bytes: int) -> int:
        """The smallest budget whose arena has `height_bytes`."""
        beside = self._beside(external_bytes)
        return _core.budget_for(height_bytes, beside) + self.outside_bytes

    def forget(self, one: Planned | None) -> None:
        """Drops a program that never runs again."""
        self.planned = [other for other in self.planned if other is not one]

    def plan(
        self,
        new: list[Planned],
        *,
        replan: bool,
        finds_least: bool = True,
        takes_first_plan: bool = False,
    ) -> list[Planned]:
        """Plans `new`; with `replan`, plans all other programs of the session again, too. While no
        arena is open, the planner also chooses which homes are on the host tier or the disk. With
        `takes_first_plan` plans are the first found; without `finds_least` a refusal names no
        budget that works.

        Raises BudgetTooSmall with the largest floor and a budget that works for all programs.
        Raises PlanFileError if a given plan is for another program or for homes in other places.
        """
        every = self.planned + new
        todo = every if replan else new
        # Only a new program uses its given plan: when others are planned again, homes may move.
        given = [one.given_plan if one in new else None for one in todo]
        question = self._question(external_bytes_of(every))
        question.finds_least, question.takes_first_plan = finds_least, takes_first_plan
        for one, plan in zip(todo, given, strict=True):
            if plan is not None and plan.program_hash() != one.step.hash():
                raise PlanFileError(
                    "the plan file is for another program: the step function, the shapes, the "
                    "optimizer or PyTorch changed after it was saved",
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
                    "than this model's arena",
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
            unrepeatable=sorted(
                {describe_op(one.step, op) for one in todo for op in one.step.unrepeatable()}
            ),
        )

    def take_least(self, planned: list[Planned]) -> Least:
        """Sets the budget to the smallest that has plans for these programs, and returns it with
        the floor: the same numbers as in BudgetTooSmall."""
        question, nothing = self._question(external_bytes_of(planned)), 1
        question.may_grow, question.budget_bytes = False, nothing
        here = self.below.machine()  # For a budget of 1 byte no tier is measured.
        question.machine_for = lambda n: self._machine_for(n) if n > nothing else here
        for one in planned:
            question.add(one.step, one.policy, None)
        answer = question.answer()
        found = Least(nothing, nothing, [])
        if isinstance(answer, _core.Refusal):
            culprits = [describe(planned[answer.binding].step, one) for one in answer.culprits]
            found = Least(answer.floor_budget_bytes, answer.least_budget_bytes, culprits)
        self.take_budget(found.least_found_bytes or found.floor_bytes)
        return found

    def frontier(self, one: Planned) -> list[_core.Plan]:
        """Plans of one program for all budgets. REQUIRES: no arena is open."""
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
        question.may_grow, question.arena_bytes = self.is_free, self.arena_bytes
        question.may_have_homes_on_disk = self.device.is_cpu()  # A GPU cannot reach mapped files.
        question.machine_for = self._machine_for
        return question

    def _machine_for(self, tensor_bytes: int) -> _core.Machine:
        below = self.below
        if tensor_bytes != self.tensor_bytes and self.arena_bytes is None:
            below = self._make_below(tensor_bytes)
        return below.machine()
