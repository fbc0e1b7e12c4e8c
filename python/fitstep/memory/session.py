"""A session: one arena with one set of homes, shared by all variants of all steps of a model.

compile --> Session --> Planning   budgets, tiers, plans
                    --> Arena      memory, and the tensors that are at home in it
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from .. import _core
from ..base.access import Access
from ..base.names import Names
from .arena import Arena
from .budget import slack_of, written
from .device import open_device
from .homes import Home, check_own_memory
from .planned import Planned
from .planning import Planning
from .settings import Settings


class Session:
    """REQUIRES: storages are in `planning.places` before there are variants that use them."""

    def __init__(self, settings: Settings, device: torch.device | None = None) -> None:
        self.settings = settings
        self.torch_device = device or torch.device("cpu")
        self.device: Any = open_device(self.torch_device)
        self._counted: dict[str, int] = self.device.counters()  # Counts of earlier sessions.
        self.access = Access()
        self.grads_in_use = False  # Some step reads gradients that an earlier call left.
        # By id of a parameter: the parameter, and the ghost that stands for its dropped gradient.
        self.ghosts: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self.programs: weakref.WeakSet[Any] = weakref.WeakSet()  # The Programs of each step.
        self.names = Names()
        self.planning = Planning(settings, self.device)
        self.staying: list[_core.WeakStorage] = []  # Storages that must not move into the arena.
        self.arena = Arena(self.torch_device, self.planning.places)

    def grow(self, new: list[Planned], plain_bytes: int, tensors: dict[str, torch.Tensor]) -> None:
        """Replaces the arena by a larger one, which the variants `new` need. If it raises, there is
        no arena, and every program has to be planned again."""
        planning, old = self.planning, self.planning.planned
        at_home = self.arena.at_home()
        self.leave_arena()
        for one in old:
            one.given_plan = None  # It is for the homes of the old arena.
        asked = planning.asked_bytes(plain_bytes)
        planning.take_budget(max(asked + slack_of(asked), planning.budget_bytes))
        every = [*old, *new]
        plans = planning.plan(every, replan=False)
        self.open(plans, {**at_home, **tensors})
        for one, plan in zip(every, plans, strict=True):
            one.take_over(plan)
        planning.planned = old

    def leave_arena(self) -> None:
        """Closes the arena; its tensors get ordinary memory. Every program has to be planned again
        before it can run."""
        self.look_below()
        self.arena.close()
        for one in self.planning.planned:
            one.variant = None
        self.planning.arena_bytes, self.planning.planned = None, []

    @property
    def homes(self) -> dict[str, Home]:
        return self.planning.places.by_name

    @property
    def bottom_bytes(self) -> int:
        return self.planning.places.bottom_bytes  # End of the homes in the arena.

    def name_of(self, tensor: torch.Tensor, proposal: str) -> str:
        """The tensor's name in this arena, the same for all steps that share the arena."""
        home = self.arena.home_of(tensor)
        if home is not None:
            return home.name
        return self.names.unique(tensor, proposal)

    def room(self) -> tuple[Any, Any, int]:
        """(device, memory of the arena or None, end of its homes in bytes)."""
        return self.device, self.arena.core, self.bottom_bytes

    def lower(self, recorder: Any, profile: Any, progress: Callable[[int, int], None]) -> Any:
        """The StepProgram of a recording. Measures operators in free memory of the arena, or in the
        budget if there is no arena yet."""
        budget = written("budget", self.settings.budget)
        return _core.lower_and_measure(
            recorder, profile, self.device, self.arena.core, self.bottom_bytes, budget, progress
        )

    def open(self, plans: list[Planned], tensors: dict[str, torch.Tensor]) -> None:
        """Opens the arena if it is not open, moves `tensors` into their homes, and makes the plans
        ready to run. Every plan is verified before any tensor moves into its home."""
        for name, tensor in tensors.items():
            check_own_memory(name, tensor)
        most = max(int(one.plan.certificate()["height_bytes"]) for one in plans)
        arena, planned = self.arena, self.planning.planned
        taken: Any = None  # On a GPU: tensors whose memory the arena needs.
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
            arena.core.touch(most)  # Once more, after tensors have left their old memory.
            arena.all_are_home()
        except BaseException:
            if not planned and arena.is_open:
                for one in plans:
                    one.variant = None  # A variant would keep the arena alive.
                arena.drop()
                self.planning.arena_bytes = None
            if taken is not None:
                taken.put_back()
            raise

    def run_by(self, one: Planned, coded: Planned) -> None:
        """Has `one` run by the plan of `coded`, which differs only in the codes of copies."""
        coded.make_ready(self.arena.core, self.bottom_bytes)
        one.take_over(coded)
        if self.planning.below.host_codes:  # Frees host memory that full copies used.
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
        """To be called in a forked process, which has no copy of the arena."""
        self.access.forsake()
        self.arena.forsake()

    def counters(self) -> dict[str, int]:
        """The allocator's counters of this thread since the session began."""
        return {name: n - self._counted[name] for name, n in self.device.counters().items()}

    def look_below(self) -> None:
        """Updates the traffic counters in `planning.below`."""
        if self.arena.is_open:
            self.planning.below.look(self.arena.core)

    def close(self) -> None:
        """Closes the arena for good. Raises FitstepError while a step runs in it."""
        with self.access.last():
            self.leave_arena()
            self.arena.all_are_home()
