"""A session: one arena, one set of homes, and all variants of all functions that share them.

arena   | home | home | home |  residencies and scratch of whichever variant runs  | reserve |
        0                    bottom                                             capacity
host    | home |  what plans evict  |      without one, homes that do not fit are on the disk
disk           |  what plans evict  |
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable
from functools import partial
from typing import Any

import torch

from . import _core
from .below import Below, Links
from .budget import asked_bytes, joined, larger_than, slack_of, written
from .describe import describe
from .device import open_device
from .errors import BudgetTooSmall, PlanFileError
from .home_tiers import plan_with_homes
from .homes import Home, Homes, check_may_move_in, check_own_memory
from .least import LooksFor, with_least, with_policy
from .names import Names
from .planned import Planned, external_bytes_of
from .seen_memory import check_not_lent
from .settings import Settings
from .usable import alone


class Session:
    """REQUIRES: storages are brought in by `places.add` before the variants that use them."""

    def __init__(self, settings: Settings, device: torch.device | None = None) -> None:
        self.settings = settings
        self.torch_device = device or torch.device("cpu")
        self.device: Any = open_device(self.torch_device)
        self._counted: dict[str, int] = self.device.counters()  # By steps of others, before.
        self.lock = threading.Lock()  # Of who uses the arena: see usable.py.
        self.is_closed = False
        self.is_forsaken = False  # In a process that was forked.
        self.is_ending = False  # In a process that ends.
        self.looks_for: LooksFor = "plan"
        self.grads_in_use = False  # Some function reads gradients that an earlier call left.
        self.ghosts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # For dropped grads, by id.
        self.steps: weakref.WeakSet[Any] = weakref.WeakSet()
        self.names = Names()
        self.places = Homes(self.device.alignment_bytes())
        self.budget_bytes = 0
        self.outside_bytes = 0  # What a GPU holds beside tensors: it counts in the budget.
        self.staying: list[_core.WeakStorage] = []  # What somebody sees past tensors.
        self.below = Below()
        self._make_below: Callable[[int], Below] = lambda _: Below()
        self.planned: list[Planned] = []
        self._homes: Any = None  # _core.Homes
        self._capacity_bytes = 0
        self._least_capacity = 0  # Of the variants that were planned last and do not fit.
        self._next_capacity = 0

    @property
    def is_open(self) -> bool:
        return self._homes is not None

    @property
    def is_free(self) -> bool:
        """Whether the budget is what plain PyTorch needs, whatever that is: then all fits."""
        asked = written("budget", self.settings.budget)
        return not asked.bytes and (asked.percent == 0 or asked.percent >= 100)

    def grow(self, new: list[Planned], plain_bytes: int, tensors: dict[str, torch.Tensor]) -> None:
        """Opens a larger arena in place of this one: another variant needs it."""
        old = self.planned
        at_home = {
            name: home.tensor
            for name, home in self.homes.items()
            if home.tensor is not None and self.is_home(home.tensor, home)
        }
        self.leave_arena()
        asked = asked_bytes(self.settings.budget, plain_bytes, self.outside_bytes)
        self.budget_bytes = max(asked + slack_of(asked), self.budget_bytes)
        every = [*old, *new]
        plans = self.plan(every, replan=False)
        self.open(plans, {**at_home, **tensors})
        for one, plan in zip(every, plans, strict=True):
            one.take_over(plan)
        self.planned = old

    def leave_arena(self) -> None:
        """What is in it is ordinary memory now, and every program has to be planned again."""
        self.look_below()
        if self._homes is not None:
            self._homes.close()
        for home in self.homes.values():
            home.tensor = None
        for one in self.planned:
            one.variant = None
        self._homes, self.planned = None, []

    @property
    def homes(self) -> dict[str, Home]:
        """By name."""
        return self.places.by_name

    @property
    def bottom_bytes(self) -> int:
        return self.places.bottom_bytes  # Where the homes in the arena end.

    @property
    def tensor_bytes(self) -> int:
        return max(self.budget_bytes - self.outside_bytes, 0)  # What of the budget is for tensors.

    def split(self, external_bytes: int = 0) -> _core.Budget:
        """What of the budget is for what."""
        return _core.split_budget(self.tensor_bytes, self._beside(external_bytes))

    def _beside(self, external_bytes: int) -> _core.BesideArena:
        alignment = self.device.alignment_bytes()
        return _core.BesideArena(external_bytes, self.below.pieces, alignment)

    @property
    def around_bytes(self) -> int:
        """What of the budget is neither the arena's nor that of tensors outside."""
        parts = self.split()
        around = parts.reserve_bytes + parts.host_bytes + parts.staging_bytes
        return around + self.outside_bytes

    def home_of(self, tensor: torch.Tensor) -> Home | None:
        """The home that the tensor's storage has, if it is in this arena."""
        if not self.is_open or not _core.has_storage(tensor) or not _core.storage_bytes(tensor):
            return None  # One without bytes has the address of its neighbour.
        place = self._homes.place_of(_core.storage_begin(tensor))
        return self.places.by_place.get(place)

    def name_of(self, tensor: torch.Tensor, proposal: str) -> str:
        """The one name of a tensor in this arena, whatever the functions call it that share it."""
        home = self.home_of(tensor)
        if home is not None:
            return home.name
        return self.names.unique(tensor, proposal)

    def lent(self) -> list[torch.Tensor]:
        """What is at home and was given to numpy."""
        return [] if self._homes is None else list(self._homes.lent())

    def room(self) -> tuple[Any, Any, int]:
        """The device, the arena if it is open, and where its homes end."""
        return self.device, self._homes, self.bottom_bytes

    def set_budget(self, plain_peak_bytes: int, links: Links) -> None:
        """The budgets in bytes, from what the user gave; also what copies between tiers cost."""
        self._make_below = partial(Below.of, self.settings, plain_peak_bytes, links)
        self.outside_bytes = self.device.outside_bytes()
        asked = asked_bytes(self.settings.budget, plain_peak_bytes, self.outside_bytes)
        self.take_budget(asked)

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

    def lower(self, recorder: Any, profile: Any, progress: Callable[[int, int], None]) -> Any:
        """The StepProgram of a recording; what is measured for it uses what the arena has free, or
        what the budget leaves before there is one."""
        budget = written("budget", self.settings.budget)
        return _core.lower_and_measure(
            recorder, profile, self.device, self._homes, self.bottom_bytes, budget, progress
        )

    def plan(self, new: list[Planned], *, replan: bool) -> list[Planned]:
        """Plans `new`, and with `replan` all others again; the first time it also decides which
        homes are below. Raises BudgetTooSmall with the largest floor of all variants."""
        plan = partial(plan_with_homes, self, new, replan=replan)
        try:
            return plan()
        except BudgetTooSmall as error:
            if self.is_open and self.is_free:
                raise  # It grows; nobody asks for the least.
            if self.is_free and (larger := larger_than(error)):
                self.budget_bytes = larger
                return self.plan(new, replan=replan)
            least = with_least(self, error, plan)
            raise with_policy(self, least, new, plan) from None

    def plan_all(self, new: list[Planned], *, replan: bool) -> list[Planned]:
        """With homes where they are."""
        every = self.planned + new
        external_bytes = external_bytes_of(every)
        capacity = self.capacity_for(every)
        if self.is_open:
            capacity = min(capacity, self._capacity_bytes)
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
            if self.is_free and not self.is_open and least > self.budget_bytes:
                self.budget_bytes = least
                return self.plan_all(new, replan=replan)
            raise joined(failed)  # In no variable: then it would hold its frames, and they it.
        self._next_capacity = capacity
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
        outcome = _core.plan_step(
            one.step, torch.get_num_threads(), self.plan_options(one, capacity, position)
        )
        if outcome[0] == "fits":
            return outcome[1]
        if outcome[0] == "too small":
            least = floor = outcome[1]
        else:
            least, floor = outcome[1] or outcome[2], outcome[2]
        self._least_capacity = max(self._least_capacity, least)  # All variants have to fit.
        raise BudgetTooSmall(
            self.budget_bytes,
            self.budget_for(floor, external_bytes),
            self.budget_for(least, external_bytes),
            [describe(one.step, c) for c in outcome[-1]],
        )

    def plan_options(
        self, one: Planned, capacity: int, position: tuple[int, int] = (0, 1)
    ) -> dict[str, Any]:
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

    def open(self, plans: list[Planned], tensors: dict[str, torch.Tensor]) -> None:
        """Opens the arena if need be, moves `tensors` into their homes, and makes the variants.

        Verification comes first: nothing of the user's is touched before every plan has passed.
        """
        for name, tensor in tensors.items():
            check_own_memory(name, tensor)
        most = max(int(one.plan.certificate()["height_bytes"]) for one in plans)
        taken: Any = None  # What has to make room for an arena, on a GPU.
        try:
            if self._homes is None:
                if not self.device.is_cpu():
                    taken = _core.TakenOut(self.device, list(tensors.values()))
                self._open_homes()
            self.below.reserve(self._homes, [one.plan for one in plans])
            for one in plans:
                one.make_ready(self._homes, self.bottom_bytes)
            if self.planned:
                self._homes.touch(most)
            self.bring_home([(self.homes[name], tensor) for name, tensor in tensors.items()])
            self._homes.touch(most)  # Behind that, as what they leave may be there no longer.
        except BaseException:
            if not self.planned and self._homes is not None:
                for one in plans:
                    one.variant = None  # Or the arena would stay.
                self._homes.close()
                self._homes = None
            if taken is not None:
                taken.put_back()
            raise

    def run_by(self, one: Planned, coded: Planned) -> None:
        """Has `one` run by the plan of `coded`, of which only copies below differ."""
        coded.make_ready(self._homes, self.bottom_bytes)
        one.take_over(coded)
        if self.below.host_codes:  # Copies as they are have touched all of their room.
            self._homes.discard_evicted()

    def _open_homes(self) -> None:
        size = max(self._next_capacity, self.bottom_bytes, self.device.alignment_bytes())
        reserve = self.split().reserve_bytes
        options = {
            "size_bytes": size + reserve,
            "reserve_bytes": reserve,
            "host_bottom_bytes": self.places.host_bottom_bytes,
        }
        self._homes = self.below.open_homes(self.device, self.tensor_bytes, options)
        self._capacity_bytes = self._next_capacity

    def bring_home(self, wanted: list[tuple[Home, torch.Tensor]]) -> None:
        """Who is at home in the place of one of these moves out, and all that are not there in."""
        strangers = [(home, tensor) for home, tensor in wanted if not self.is_home(tensor, home)]
        for home, _ in strangers:
            self.leave_home(home)
        for home, tensor in strangers:
            check_may_move_in(home, tensor)
            self._homes.move_in(tensor.detach(), home.place, 2)
            home.tensor = tensor.detach()

    def take_over(self, home: Home, tensor: torch.Tensor) -> None:
        """The tensor's content has been left at home by the step that has just run."""
        self._homes.take_over(tensor, home.place)
        home.tensor = tensor

    def at_home(self, home: Home, like: torch.Tensor) -> Any:
        """What is there, as a tensor of the geometry of `like`."""
        geometry = list(like.shape), list(like.stride()), like.storage_offset(), like.dtype
        return self._homes.make(*geometry, home.size_bytes, home.place, like.device)

    def address_of(self, name: str) -> int:
        """Where a home is; 0 for one beside a GPU's arena."""
        home = self.homes[name]
        if not home.size_bytes or not home.may_be_below:
            return 0
        return int(self._homes.address_of(home.place, home.size_bytes, self.torch_device))

    def leave_home(self, home: Home) -> None:
        """Makes room: who is there gets memory of its own, if held. FitstepError: numpy has it."""
        if home.tensor is not None and self.is_home(home.tensor, home):
            check_not_lent([home.tensor], lambda _: home.name)
            self._homes.move_out(home.tensor, 1)
        home.tensor = None

    def is_home(self, tensor: torch.Tensor, home: Home) -> bool:
        return bool(self._homes.is_home(tensor, home.place))

    def forsake(self) -> None:
        """In a forked process: the arena has stayed behind."""
        self.is_forsaken = True
        if self._homes is not None:
            self._homes.forsake()

    def end(self) -> None:
        """As the process ends: waits for the step that another thread runs. None begins then."""
        if not self.is_forsaken:  # There nobody would ever release the lock.
            self.is_ending = True
            self.lock.acquire()

    def counters(self) -> dict[str, int]:
        """What the allocator has counted on this thread since the session began."""
        return {name: n - self._counted[name] for name, n in self.device.counters().items()}

    def look_below(self) -> None:
        """Brings what `below` knows of traffic up to now."""
        if self._homes is not None:
            self.below.look(self._homes)

    def close(self) -> None:
        """Gives the arena back. Raises FitstepError while a step runs in it."""
        with contextlib.nullcontext() if self.is_forsaken or self.is_ending else alone(self):
            self._close()

    def _close(self) -> None:
        self.is_closed = True
        self.leave_arena()
