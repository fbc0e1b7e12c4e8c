"""A session: one arena, one set of homes, and all variants of all functions that share them.

arena   | home | home | home |  residencies and scratch of whichever variant runs  | reserve |
        0                    bottom                                             capacity
host    | home |  what plans evict  |      without one, homes that do not fit are on the disk
disk           |  what plans evict  |
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

import torch

from . import _core
from .access import Access
from .budget import slack_of, written
from .device import open_device
from .homes import Home, check_may_move_in, check_own_memory
from .names import Names
from .planned import Planned
from .planning import Planning
from .seen_memory import check_not_lent
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
        self._homes: Any = None  # _core.Homes
        self._were_home: list[_core.WeakStorage] = []  # In the arena that was left.

    @property
    def is_open(self) -> bool:
        return self._homes is not None

    def grow(self, new: list[Planned], plain_bytes: int, tensors: dict[str, torch.Tensor]) -> None:
        """Opens a larger arena in place of this one: another variant needs it. Where it raises,
        there is none, and every program has to be made anew."""
        planning, old = self.planning, self.planning.planned
        at_home = {
            name: home.tensor
            for name, home in self.homes.items()
            if home.tensor is not None and self.is_home(home.tensor, home)
        }
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
        if self._homes is not None:
            self._homes.close()
        at_home = [home.tensor for home in self.homes.values() if home.tensor is not None]
        self._were_home += map(_core.WeakStorage, at_home)
        for home in self.homes.values():
            home.tensor = None
        for one in self.planning.planned:
            one.variant = None
        self._homes, self.planning.arena_bytes, self.planning.planned = None, None, []

    @property
    def homes(self) -> dict[str, Home]:
        """By name."""
        return self.planning.places.by_name

    @property
    def bottom_bytes(self) -> int:
        return self.planning.places.bottom_bytes  # Where the homes in the arena end.

    def home_of(self, tensor: torch.Tensor) -> Home | None:
        """The home that the tensor's storage has, if it is in this arena."""
        if not self.is_open or not _core.has_storage(tensor) or not _core.storage_bytes(tensor):
            return None  # One without bytes has the address of its neighbour.
        place = self._homes.place_of(_core.storage_begin(tensor))
        return self.planning.places.by_place.get(place)

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is at home here, or was when there was no memory for an arena."""
        if self.home_of(tensor) is not None:
            return True
        found = (ref() for ref in self._were_home)
        return any(t is not None and _core.storage_id(t) == _core.storage_id(tensor) for t in found)

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

    def lower(self, recorder: Any, profile: Any, progress: Callable[[int, int], None]) -> Any:
        """The StepProgram of a recording; what is measured for it uses what the arena has free, or
        what the budget leaves before there is one."""
        budget = written("budget", self.settings.budget)
        return _core.lower_and_measure(
            recorder, profile, self.device, self._homes, self.bottom_bytes, budget, progress
        )

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
            self.planning.below.reserve(self._homes, [one.plan for one in plans])
            for one in plans:
                one.make_ready(self._homes, self.bottom_bytes)
            if self.planning.planned:
                self._homes.touch(most)
            self.bring_home([(self.homes[name], tensor) for name, tensor in tensors.items()])
            self._homes.touch(most)  # Behind that, as what they leave may be there no longer.
            self._were_home = []
        except BaseException:
            if not self.planning.planned and self._homes is not None:
                for one in plans:
                    one.variant = None  # Or the arena would stay.
                self._homes.close()
                self._homes = self.planning.arena_bytes = None
            if taken is not None:
                taken.put_back()
            raise

    def run_by(self, one: Planned, coded: Planned) -> None:
        """Has `one` run by the plan of `coded`, of which only copies below differ."""
        coded.make_ready(self._homes, self.bottom_bytes)
        one.take_over(coded)
        if self.planning.below.host_codes:  # Copies as they are have touched all of their room.
            self._homes.discard_evicted()

    def _open_homes(self) -> None:
        planning = self.planning
        size = max(planning.next_capacity, self.bottom_bytes, self.device.alignment_bytes())
        reserve = planning.split().reserve_bytes
        options = {
            "size_bytes": size + reserve,
            "reserve_bytes": reserve,
            "host_bottom_bytes": planning.places.host_bottom_bytes,
        }
        self._homes = planning.below.open_homes(self.device, planning.tensor_bytes, options)
        planning.arena_bytes = planning.next_capacity

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
        self.access.forsake()
        if self._homes is not None:
            self._homes.forsake()

    def counters(self) -> dict[str, int]:
        """What the allocator has counted on this thread since the session began."""
        return {name: n - self._counted[name] for name, n in self.device.counters().items()}

    def look_below(self) -> None:
        """Brings what `below` knows of traffic up to now."""
        if self._homes is not None:
            self.planning.below.look(self._homes)

    def close(self) -> None:
        """Gives the arena back. Raises FitstepError while a step runs in it."""
        with self.access.last():
            self.leave_arena()
            self._were_home = []
