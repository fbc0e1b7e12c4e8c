"""The arena of a session: memory in which plans run, and the tensors that are at home in it.

arena   | home | home | home |  residencies and scratch of whichever variant runs  | reserve |
        0                    bottom                                             capacity
host    | home |  evicted storages  |      without a host, homes that do not fit are on the disk
disk           |  evicted storages  |
"""

from __future__ import annotations

from typing import Any

import torch

from . import _core
from .homes import Home, Homes, check_may_move_in
from .seen_memory import check_not_lent


class Arena:
    """Is closed until it is given memory. A tensor moves in when its home is there."""

    def __init__(self, device: torch.device, homes: Homes) -> None:
        self._device = device
        self._places = homes
        self.core: Any = None  # _core.Homes, while it is open.
        self._were_home: list[_core.WeakStorage] = []  # In the arena that was left.

    @property
    def is_open(self) -> bool:
        """Whether it has memory."""
        return self.core is not None

    @property
    def homes(self) -> dict[str, Home]:
        """By name, whether the arena is open or not."""
        return self._places.by_name

    def home_of(self, tensor: torch.Tensor) -> Home | None:
        """The home that the tensor's storage has, if it is in this arena."""
        if not self.is_open or not _core.has_storage(tensor) or not _core.storage_bytes(tensor):
            return None  # One without bytes has the address of its neighbour.
        return self._places.by_place.get(self.core.place_of(_core.storage_begin(tensor)))

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is at home here, or was when there was no memory for an arena."""
        if self.home_of(tensor) is not None:
            return True
        found = (ref() for ref in self._were_home)
        return any(t is not None and _core.storage_id(t) == _core.storage_id(tensor) for t in found)

    def is_home(self, tensor: torch.Tensor, home: Home) -> bool:
        """Whether the tensor's storage lies in this home."""
        return bool(self.core.is_home(tensor, home.place))

    def at_home(self) -> dict[str, torch.Tensor]:
        """The tensors that are at home, by the names of their homes."""
        return {
            name: home.tensor
            for name, home in self.homes.items()
            if home.tensor is not None and self.is_home(home.tensor, home)
        }

    def lent(self) -> list[torch.Tensor]:
        """The tensors at home that numpy was given."""
        return list(self.core.lent()) if self.is_open else []

    def address_of(self, name: str) -> int:
        """Where a home is; 0 for one beside a GPU's arena."""
        home = self.homes[name]
        if not home.size_bytes or not home.may_be_below:
            return 0
        return int(self.core.address_of(home.place, home.size_bytes, self._device))

    # -- tensors come and go -------------------------------------------------------------------

    def bring_home(self, wanted: list[tuple[Home, torch.Tensor]]) -> None:
        """Moves each tensor into its home, and out whoever was there in its place."""
        strangers = [(home, tensor) for home, tensor in wanted if not self.is_home(tensor, home)]
        for home, _ in strangers:
            self.leave_home(home)
        for home, tensor in strangers:
            check_may_move_in(home, tensor)
            self.core.move_in(tensor.detach(), home.place, 2)
            home.tensor = tensor.detach()

    def take_over(self, home: Home, tensor: torch.Tensor) -> None:
        """The step that has just run has left the tensor's content at home."""
        self.core.take_over(tensor, home.place)
        home.tensor = tensor

    def leave_home(self, home: Home) -> None:
        """Makes room: who is there gets memory of its own, if held. FitstepError: numpy has it."""
        if home.tensor is not None and self.is_home(home.tensor, home):
            check_not_lent([home.tensor], lambda _: home.name)
            self.core.move_out(home.tensor, 1)
        home.tensor = None

    def content_of(self, home: Home, like: torch.Tensor) -> Any:
        """The bytes of a home as a tensor of the geometry of `like`."""
        geometry = list(like.shape), list(like.stride()), like.storage_offset(), like.dtype
        return self.core.make(*geometry, home.size_bytes, home.place, like.device)

    # -- the arena opens and closes ------------------------------------------------------------

    def open(self, core: Any) -> None:
        """From now on it has this memory (_core.Homes)."""
        self.core = core

    def all_are_home(self) -> None:
        """No tensor of the arena that was left is waiting for this one any more."""
        self._were_home = []

    def close(self) -> None:
        """Gives the memory back: tensors at home have memory of their own now."""
        if self.is_open:
            self.core.close()
        at_home = [home.tensor for home in self.homes.values() if home.tensor is not None]
        self._were_home += map(_core.WeakStorage, at_home)
        for home in self.homes.values():
            home.tensor = None
        self.core = None

    def drop(self) -> None:
        """Gives the memory back of an arena that nothing has moved into for good."""
        self.core.close()
        self.core = None

    def forsake(self) -> None:
        """In a forked process: the memory has stayed behind."""
        if self.is_open:
            self.core.forsake()
