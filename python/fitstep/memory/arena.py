"""The arena of a session: memory in which plans run, and the tensors that are at home in it.

arena   | home | home | home |  residencies and scratch of whichever variant runs  | reserve |
        0                    bottom                                             capacity
host    | home |  evicted storages  |      without a host, homes that do not fit are on the disk
disk           |  evicted storages  |
"""

from __future__ import annotations

from typing import Any

import torch

from .. import _core
from .homes import Home, Homes, check_may_move_in
from .seen_memory import check_not_lent


class Arena:
    """Is closed until it is given memory. A tensor moves in when its home is there."""

    def __init__(self, device: torch.device, homes: Homes) -> None:
        self._device = device
        self._places = homes
        self.core: Any = None  # _core.Homes, while it is open.
        self._were_home: list[_core.WeakStorage] = []  # Storages of the arena that was left.

    @property
    def is_open(self) -> bool:
        """Whether it has memory."""
        return self.core is not None

    @property
    def homes(self) -> dict[str, Home]:
        """By name, whether the arena is open or not."""
        return self._places.by_name

    def home_of(self, tensor: torch.Tensor) -> Home | None:
        """The home of the tensor's storage in this arena, or None."""
        if not self.is_open or not _core.has_storage(tensor) or not _core.storage_bytes(tensor):
            return None  # An empty storage may have the address of its neighbour.
        return self._places.by_place.get(self.core.place_of(_core.storage_begin(tensor)))

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether the tensor is in this arena, or was in the arena that was left."""
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
        """Tensors in the arena whose memory was lent to numpy."""
        return list(self.core.lent()) if self.is_open else []

    def address_of(self, name: str) -> int:
        """The address of a home; 0 if it is empty, or of a CPU tensor beside a GPU."""
        home = self.homes[name]
        if not home.size_bytes or not home.may_be_below:
            return 0
        return int(self.core.address_of(home.place, home.size_bytes, self._device))

    # -- tensors come and go -------------------------------------------------------------------

    def bring_home(self, wanted: list[tuple[Home, torch.Tensor]]) -> None:
        """Moves each tensor into its home, after any other tensor that is there has moved out."""
        strangers = [(home, tensor) for home, tensor in wanted if not self.is_home(tensor, home)]
        for home, _ in strangers:
            self.leave_home(home)
        for home, tensor in strangers:
            check_may_move_in(home, tensor)
            self.core.move_in(tensor.detach(), home.place, 2)
            home.tensor = tensor.detach()

    def take_over(self, home: Home, tensor: torch.Tensor) -> None:
        """Points the tensor at its home, where the step that just ran left its content."""
        self.core.take_over(tensor, home.place)
        home.tensor = tensor

    def leave_home(self, home: Home) -> None:
        """Moves the tensor that is in the home out, into memory of its own. Raises ArrayIsAlive if
        numpy uses its memory."""
        if home.tensor is not None and self.is_home(home.tensor, home):
            check_not_lent([home.tensor], lambda _: home.name)
            self.core.move_out(home.tensor, 1)
        home.tensor = None

    def content_of(self, home: Home, like: torch.Tensor) -> Any:
        """A view of the home's bytes with the shape, strides and dtype of `like`."""
        geometry = list(like.shape), list(like.stride()), like.storage_offset(), like.dtype
        return self.core.make(*geometry, home.size_bytes, home.place, like.device)

    # -- the arena opens and closes ------------------------------------------------------------

    def open(self, core: Any) -> None:
        """Takes memory (_core.Homes), until it is closed."""
        self.core = core

    def all_are_home(self) -> None:
        """Forgets the tensors of the arena that was left."""
        self._were_home = []

    def close(self) -> None:
        """Gives the memory back. Tensors at home get memory of their own."""
        if self.is_open:
            self.core.close()
        at_home = [home.tensor for home in self.homes.values() if home.tensor is not None]
        self._were_home += map(_core.WeakStorage, at_home)
        for home in self.homes.values():
            home.tensor = None
        self.core = None

    def drop(self) -> None:
        """Gives the memory back after opening has failed."""
        self.core.close()
        self.core = None

    def forsake(self) -> None:
        """To be called in a forked process, which has no copy of the memory."""
        if self.is_open:
            self.core.forsake()
