"""A session: one arena, one set of homes, and all variants of all functions that share them.

compile --> Session --> Planning   budgets, tiers, plans
                    --> Arena      memory, and the tensors that are at home in it
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import _core
from .access import Access
from .arena import Arena
from .budget import slack_of, written
from .device import open_device
from .homes import Home, check_own_memory
from .names import Names
from .planned import Planned
from .planning import Planning
from .settings import Settings


class Session:
    """REQUIRES: storages are in `planning.places` before there are variants that use them."""

    def __init__(self, settings: Settings, device: torch.device | None = None) -> None:
        self.settings = settings
        self.torch_device = device or torch.device("cpu")
        self.device: Any = open_device(self.torch_device)
        self._counted: dict[str, int] = self.device.counters()  # By steps of others, before.
        self.access = Access()
        self.grads_in_use = False  # Some function reads gradients that an earlier call left.
        self.ghosts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}  # For dropped grads, by id.
        self.programs: weakref.WeakSet[Any] = weakref.WeakSet()  # Of each step: Programs.
        self.names = Names()
        self.planning = Planning(settings, self.device)
        self.staying: list[_core.WeakStorage] = []  # What somebody sees past tensors.
        self.arena = Arena(self.torch_device, self.planning.places)

    def grow(self, new: list[Planned], plain_bytes: int, tensors: dict[str, torch.Tensor]) -> None:
        """Opens a larger arena in place of this one: another variant needs it. Where it raises,
        there is none, and every program has to be made anew."""
        planning, old = self.planning, self.planning.planned
        at_home = self.arena.at_home()
        self.leave_arena()
        for one in old:
            one.given_plan = None  # It is for the homes that there were.
        asked = planning.asked_bytes(plain_bytes)
        planning.take_budget(max(asked + slack_of(asked), planning.budget_bytes))
        every = [*old, *new]
        plans = planning.plan(every, replan=False)
        self.open(plans, {**at_home, **tensors})
        for one, plan in zip(every, plans, strict=True):
            one.take_over(plan)
        planning.planned = old

    def leave_arena(self) -> None:
        """What is in it is ordinary memory now, and every program has to be planned again."""
        self.look_below()
        self.arena.close()
        for one in self.planning.planned:
            one.variant = None
        self.planning.arena_bytes, self.planning.planned = None, []

    @property
    def homes(self) -> dict[str, Home]:
        """By name."""
        return self.planning.places.by_name

    @property
    def bottom_bytes(self) -> int:
        return self.planning.places.bottom_bytes  # Where the homes in the arena end.

    def name_of(self, tensor: torch.Tensor, proposal: str) -> str:
        """The one name of a tensor in this arena, whatever the functions call it that share it."""
        home = self.arena.home_of(tensor)
        if home is not None:
            return home.name
        return self.names.unique(tensor, proposal)

    def room(self) -> tuple[Any, Any, int]:
        """The device, the arena if it is open, and where its homes end."""
        return self.device, self.arena.core, self.bottom_bytes

    def lower(self, recorder: Any, profile: Any, progress: Callable[[int, int], None]) -> Any:
        """The StepProgram of a recording; what is measured for it uses what the arena has free, or
        what the budget leaves before there is one."""
        budget = written("budget", self.settings.budget)
        return _core.lower_and_measure(
            recorder, profile, self.device, self.arena.core, self.bottom_bytes, budget, progress
        )

    def open(self, plans: list[Planned], tensors: dict[str, torch.Tensor]) -> None:
        """Opens the arena if need be, moves `tensors` into their homes, and makes the variants.

        Verification comes first: nothing of the user's is touched before every plan has passed.
        """
        for name, tensor in tensors.items():
            check_own_memory(name, tensor)
        most = max(int(one.plan.certificate()["height_bytes"]) for one in plans)
        arena, planned = self.arena, self.planning.planned
        taken: Any = None  # What has to make room for an arena, on a GPU.
        try:
            if not arena.is_open:
                if not self.device.is_cpu():
                    taken = _core.TakenOut(self.device, list(tensors.values()))
                self._open_arena()
            self.planning.below.reserve(arena.core, [one.plan for one in plans])
            for one in plans:
                one.make_ready(arena.core, self.bottom_bytes)
            if planned:
                arena.core.touch(most)
            arena.bring_home([(self.homes[name], tensor) for name, tensor in tensors.items()])
            arena.core.touch(most)  # Behind that, as what they leave may be there no longer.
            arena.all_are_home()
        except BaseException:
            if not planned and arena.is_open:
                for one in plans:
                    one.variant = None  # Or the arena would stay.
                arena.drop()
                self.planning.arena_bytes = None
            if taken is not None:
                taken.put_back()
            raise

    def run_by(self, one: Planned, coded: Planned) -> None:
        """Has `one` run by the plan of `coded`, of which only copies below differ."""
        coded.make_ready(self.arena.core, self.bottom_bytes)
        one.take_over(coded)
        if self.planning.below.host_codes:  # Copies as they are have touched all of their room.
            self.arena.core.discard_evicted()

    def _open_arena(self) -> None:
        planning = self.planning
        size = max(planning.next_capacity, self.bottom_bytes, self.device.alignment_bytes())
        reserve = planning.split().reserve_bytes
        options = {
            "size_bytes": size + reserve,
            "reserve_bytes": reserve,
            "host_bottom_bytes": planning.places.host_bottom_bytes,
        }
        core = planning.below.open_homes(self.device, planning.tensor_bytes, options)
        self.arena.open(core)
        planning.arena_bytes = planning.next_capacity

    def forsake(self) -> None:
        """In a forked process: the arena has stayed behind."""
        self.access.forsake()
        self.arena.forsake()

    def counters(self) -> dict[str, int]:
        """What the allocator has counted on this thread since the session began."""
        return {name: n - self._counted[name] for name, n in self.device.counters().items()}

    def look_below(self) -> None:
        """Brings what `below` knows of traffic up to now."""
        if self.arena.is_open:
            self.planning.below.look(self.arena.core)

    def close(self) -> None:
        """Gives the arena back. Raises FitstepError while a step runs in it."""
        with self.access.last():
            self.leave_arena()
            self.arena.all_are_home()
