"""A session: one arena, one set of homes, and all variants of all functions that share them.

arena   | home | home | home |  residencies and scratch of whichever variant runs  | reserve |
        0                    bottom                                             capacity
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from . import _core
from .errors import BudgetError, BudgetTooSmall, CaptureError, GuardError, PlanFileError

_ALIGNMENT = 64
_HUGE_PAGE = 2 * 1024 * 1024


@dataclass(eq=False)
class Home:
    """Where one persistent storage is between steps."""

    name: str
    offset_bytes: int
    size_bytes: int
    storage: weakref.ref[Any] | None = None  # Of the tensor that is there; None before it is made.
    tensor: torch.Tensor | None = None


@dataclass(eq=False)
class Planned:
    """A lowered recording with its plan, ready to run."""

    step: Any  # _core.StepProgram
    plan: Any = None  # _core.Plan
    variant: Any = None  # _core.Variant
    external_bytes: int = 0  # Inputs, outputs and closed-over tensors, which count in the peak.
    policy: str = "auto"
    given_plan: Any = None  # A plan from a file, to be used as it is.


@dataclass(eq=False)
class Settings:
    """What the user decided."""

    budget: int | str | None
    policy: str = "auto"
    seed: int = 1
    effort: int = 8
    progress: Callable[[str, float], None] | None = None


class Session:
    """REQUIRES: storages are brought in by `add_homes` before the variants that use them."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.lock = threading.Lock()  # One step of an arena at a time.
        self.is_closed = False
        self.grads_in_use = False  # Some function reads gradients that an earlier call left.
        self.steps: weakref.WeakSet[Any] = weakref.WeakSet()
        self._names: dict[tuple[object, ...], tuple[Callable[[], object], str]] = {}
        self._taken: set[str] = set()
        self.homes: dict[str, Home] = {}
        self._by_offset: dict[int, Home] = {}
        self.bottom_bytes = 0
        self.budget_bytes = 0
        self.planned: list[Planned] = []
        self.guards: list[Any] = []
        self._homes: Any = None  # _core.Homes
        self._capacity_bytes = 0
        self._next_capacity = 0

    @property
    def is_open(self) -> bool:
        return self._homes is not None

    @property
    def reserve_bytes(self) -> int:
        return _reserve_of(self.budget_bytes)

    def home_of(self, tensor: torch.Tensor) -> Home | None:
        """The home that the tensor's storage has, if it is in this arena."""
        if not self.is_open:
            return None
        offset = tensor.untyped_storage().data_ptr() - self._homes.base()
        return self._by_offset.get(offset)

    def name_of(self, tensor: torch.Tensor, proposal: str) -> str:
        """The one name of a tensor in this arena, whatever the functions call it that share it."""
        home = self.home_of(tensor)
        if home is not None:
            return home.name
        return self.unique_name(("tensor", id(tensor)), weakref.ref(tensor), proposal)

    def unique_name(
        self, identity: tuple[object, ...], alive: Callable[[], object], proposal: str
    ) -> str:
        """The name of what `identity` stands for as long as `alive()` is not None."""
        known = self._names.get(identity)
        if known is not None and known[0]() is not None:
            return known[1]
        name, count = proposal, 1
        while name in self._taken:
            count += 1
            name = f"{proposal} ({count})"
        self._taken.add(name)
        self._names[identity] = (alive, name)
        return name

    def add_home(self, name: str, size_bytes: int) -> Home:
        known = self.homes.get(name)
        if known is not None and known.size_bytes == size_bytes:
            return known
        home = Home(name, self.bottom_bytes, size_bytes)
        self.homes[name] = home
        self._by_offset[home.offset_bytes] = home
        self.bottom_bytes += -(-size_bytes // _ALIGNMENT) * _ALIGNMENT
        return home

    def remove_homes_from(self, bottom_bytes: int) -> None:
        """Forgets homes that were added above, after a compile that did not succeed."""
        self.homes = {n: h for n, h in self.homes.items() if h.offset_bytes < bottom_bytes}
        self._by_offset = {h.offset_bytes: h for h in self.homes.values()}
        self.bottom_bytes = bottom_bytes

    def set_budget(self, plain_peak_bytes: int) -> None:
        """The budget in bytes, from what the user gave."""
        self.budget_bytes = parse_budget(self.settings.budget, plain_peak_bytes)

    def capacity_for(self, planned: list[Planned]) -> int:
        inside = self.budget_bytes - _external_bytes(planned) - self.reserve_bytes
        return inside // _ALIGNMENT * _ALIGNMENT

    def lower(self, recorder: Any, profile: Any, progress: Callable[[int, int], None]) -> Any:
        """The StepProgram of a recording; what is measured for it uses what the arena has free."""
        return _core.lower_and_measure(recorder, profile, self._homes, self.bottom_bytes, progress)

    def plan(self, new: list[Planned], *, replan: bool) -> list[Planned]:
        """Plans `new`, and with `replan` all others again. Changes nothing; raises BudgetTooSmall
        with the largest floor of all variants."""
        every = self.planned + new
        external_bytes = _external_bytes(every)
        capacity = self.capacity_for(every)
        if self.is_open:
            capacity = min(capacity, self._capacity_bytes)
        todo = every if replan else new
        plans: list[Planned] = []
        failed: list[BudgetTooSmall] = []
        for i, one in enumerate(todo):
            # A given plan is for the homes that there were when it was read.
            given = one.given_plan if one in new else None
            try:
                plan = self._plan_one(one, given, capacity, external_bytes, (i, len(todo)))
            except BudgetTooSmall as error:
                failed.append(error)
                continue
            plans.append(Planned(one.step, plan, None, one.external_bytes, one.policy, given))
        if failed:
            error = _joined(failed)
            least = error.least_found_bytes
            if self.settings.budget is None and not self.is_open and least is not None:
                if least > self.budget_bytes:  # A model without slack: alignment and reserve.
                    self.budget_bytes = least
                    return self.plan(new, replan=replan)
            raise error
        self._next_capacity = capacity
        return plans

    def budget_for(self, height_bytes: int, external_bytes: int) -> int:
        """The least budget that leaves a capacity of `height_bytes`."""
        budget = height_bytes + external_bytes
        while True:
            capacity = (budget - external_bytes - _reserve_of(budget)) // _ALIGNMENT * _ALIGNMENT
            if capacity >= height_bytes:
                return budget
            budget += height_bytes - capacity

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
        outcome = _core.plan_step(
            one.step, torch.get_num_threads(), self.plan_options(one, capacity, position)
        )
        if outcome[0] == "fits":
            return outcome[1]
        if outcome[0] == "too small":
            heights = [plan.certificate()["height_bytes"] for plan in self._frontier(one)]
            least = min(heights) if heights else None
        else:
            least = outcome[1]
        floor = outcome[1] if outcome[0] == "too small" else outcome[2]
        raise BudgetTooSmall(
            self.budget_bytes,
            self.budget_for(floor, external_bytes),
            None if least is None else self.budget_for(least, external_bytes),
            [describe(one.step, c) for c in outcome[-1]],
        )

    def _frontier(self, one: Planned) -> list[Any]:
        plans: list[Any] = _core.frontier_of(
            one.step, torch.get_num_threads(), self.plan_options(one, 0)
        )[1]
        return plans

    def plan_options(
        self, one: Planned, capacity: int, position: tuple[int, int] = (0, 1)
    ) -> dict[str, Any]:
        progress = self.settings.progress
        done, every = position

        def show(share: float) -> None:
            if progress is not None:
                progress("planning", (done + share) / every)

        return {
            "homes": {home.name: home.offset_bytes for home in self.homes.values()},
            "bottom_bytes": self.bottom_bytes,
            "capacity_bytes": capacity,
            "seed": self.settings.seed,
            "effort": self.settings.effort,
            "policy": one.policy,
            "progress": show if progress is not None else None,
        }

    def open(self, plans: list[Planned], tensors: dict[str, torch.Tensor]) -> None:
        """Opens the arena if need be, moves `tensors` into their homes, and makes the variants.

        Verification comes first: nothing of the user's is touched before every plan has passed.
        """
        if self._homes is None:
            size = max(self._next_capacity, self.bottom_bytes) + self.reserve_bytes
            self._homes = _core.Homes(size, self.reserve_bytes)
            self._capacity_bytes = self._next_capacity
        try:
            for one in plans:
                one.variant = _core.Variant(one.step, one.plan, self._homes, self.bottom_bytes)
        except Exception:
            if not self.planned:
                self._homes.close()
                self._homes = None
            raise
        for name, tensor in tensors.items():
            home = self.homes[name]
            if not self._homes.is_home(tensor, home.offset_bytes):
                self._homes.move_in(tensor.detach(), home.offset_bytes, 2)
            home.tensor = tensor

    def make_tensor(self, home: Home, fake: torch.Tensor) -> torch.Tensor:
        """A tensor of the fake's geometry over a home."""
        made: torch.Tensor = self._homes.make(
            list(fake.shape),
            list(fake.stride()),
            int(fake.storage_offset()),
            fake.dtype,
            home.size_bytes,
            home.offset_bytes,
        )
        home.tensor = made
        return made

    def bring_back(self, home: Home, tensor: torch.Tensor) -> None:
        """Takes over a tensor that replaced the one at home (after load_state_dict)."""
        if tensor.untyped_storage().nbytes() != home.size_bytes:
            raise GuardError(
                home.name,
                f"{home.size_bytes} bytes",
                f"{tensor.untyped_storage().nbytes()} bytes",
                todo="close() the compiled step and compile again after replacing tensors",
            )
        self._homes.move_in(tensor.detach(), home.offset_bytes, 2)
        home.tensor = tensor

    def is_home(self, tensor: torch.Tensor, home: Home) -> bool:
        return bool(self._homes.is_home(tensor, home.offset_bytes))

    def close(self) -> None:
        self.is_closed = True
        if self._homes is not None:
            self._homes.close()
            self._homes = None
        for home in self.homes.values():
            home.tensor = None
        for one in self.planned:
            one.variant = None
        self.planned = []


def _reserve_of(budget_bytes: int) -> int:
    """One percent, for requests of kernels that nobody foresaw."""
    return budget_bytes // 100 // _ALIGNMENT * _ALIGNMENT


def _external_bytes(planned: list[Planned]) -> int:
    return max((one.external_bytes for one in planned), default=0)


def _joined(failed: list[BudgetTooSmall]) -> BudgetTooSmall:
    """One error for all variants that do not fit: what is needed is what the largest needs."""
    worst = max(failed, key=lambda error: error.floor_bytes)
    found = [error.least_found_bytes for error in failed]
    known = [least for least in found if least is not None]
    least = max(known) if len(known) == len(found) else None
    return BudgetTooSmall(worst.budget_bytes, worst.floor_bytes, least, worst.culprits)


def parse_budget(budget: int | str | None, plain_peak_bytes: int) -> int:
    """Bytes of a budget: an int, "6GiB", or a share of the plain peak such as "75%".

    Raises BudgetError for anything else.
    """
    todo = 'give bytes as an int, a size such as "6GiB", or a share such as "75%"'
    if budget is None:
        return plain_peak_bytes
    if isinstance(budget, bool) or not isinstance(budget, int | str):
        raise BudgetError(f"budget={budget!r} is no number of bytes", todo=todo)
    if isinstance(budget, int):
        if budget <= 0:
            raise BudgetError(f"budget={budget} bytes is not positive", todo=todo)
        return budget
    text = budget.strip()
    if text.endswith("%"):
        try:
            share = float(text[:-1])
        except ValueError:
            raise BudgetError(f"budget={budget!r} is no share", todo=todo) from None
        if not 0 < share <= 1000:
            raise BudgetError(f"budget={budget!r} is not between 0 and 1000 %", todo=todo)
        return int(plain_peak_bytes * share / 100)
    try:
        parsed = int(_core.parse_bytes(text))
    except _core.CoreError as error:
        raise BudgetError(f"budget={budget!r}: {error.args[1]}", todo=todo) from None
    if parsed <= 0:
        raise BudgetError(f"budget={budget!r} is not positive", todo=todo)
    return parsed


def describe(step: Any, culprit: tuple[int, int]) -> str:
    """One readable line for an op that binds a floor."""
    op, size = culprit
    return f"{describe_op(step, op)}: {_core.format_bytes(size)}"


def describe_op(step: Any, op: int) -> str:
    """Its name, and where the user's code called it."""
    name, module, file, line = step.op(op)
    where = f" at {file}:{line}" if file else ""
    return f"{name}{f' in {module}' if module else ''}{where}"


_sessions: weakref.WeakSet[Session] = weakref.WeakSet()


def session_for(tensors: list[torch.Tensor], settings: Settings) -> Session:
    """The open session in which a storage is at home already, or a new one.

    Raises BudgetError when a session is joined with another budget.
    """
    found = {s for s in _sessions for t in tensors if s.home_of(t) is not None}
    if not found:
        session = Session(settings)
        _sessions.add(session)
        return session
    if len(found) > 1:
        raise CaptureError(
            "the step function uses models that were compiled apart, in two arenas",
            todo="close() one of the compiled steps, or compile the functions that share models "
            "one after another",
        )
    session = found.pop()
    given = settings.budget
    if given is not None and given != session.settings.budget:
        if isinstance(given, str) and given.strip().endswith("%"):
            raise _other_budget(given, session)
        if parse_budget(given, 0) != session.budget_bytes:
            raise _other_budget(given, session)
    return session


def _other_budget(given: object, session: Session) -> BudgetError:
    return BudgetError(
        f"budget={given!r}, but this model is already at home in an arena with a budget of "
        f"{_core.format_bytes(session.budget_bytes)}",
        todo="leave budget= out, give the same one, or close() the earlier step first",
    )
