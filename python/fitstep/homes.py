"""Homes: the places of persistent storages between steps, in the order in which they came.

arena   | home | home | home |          host tier   | home | home |
        0                    bottom                 0             host bottom
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch

from . import _core
from .errors import CaptureError, FitstepError


@dataclass(eq=False)
class Home:
    """Where one persistent storage is between steps."""

    name: str
    offset_bytes: int  # On its tier.
    size_bytes: int
    is_below: bool = False  # On the host tier, or on the disk.
    may_be_below: bool = True  # A tensor of the host beside a GPU is in none of the tiers.
    storage: weakref.ref[Any] | None = None  # Of the tensor that is there; None before it is made.
    tensor: torch.Tensor | None = None

    @property
    def place(self) -> tuple[bool, int]:
        """What the core calls it: whether it is below, and its offset in bytes."""
        return self.is_below, self.offset_bytes


class Homes:
    """The homes of one arena. They are stacked, and once the arena is open they stay."""

    def __init__(self, alignment_bytes: int = _core.ALIGNMENT_BYTES) -> None:
        self._alignment_bytes = alignment_bytes
        self.clear()

    def clear(self) -> None:
        """There are no homes, as in an arena that was never open."""
        self.by_name: dict[str, Home] = {}
        self.by_place: dict[tuple[bool, int], Home] = {}
        self.bottom_bytes = 0
        self.host_bottom_bytes = 0
        self.on_disk = False  # Those below.

    def add(self, name: str, size_bytes: int, *, may_be_below: bool = True) -> None:
        """A home in the arena, unless there is one of that name and size."""
        known = self.by_name.get(name)
        if known is not None and known.size_bytes == size_bytes:
            return
        home = Home(name, self.bottom_bytes, size_bytes, may_be_below=may_be_below)
        units = -(-size_bytes // self._alignment_bytes)
        self.bottom_bytes += units * self._alignment_bytes
        self.by_name[name] = self.by_place[home.place] = home

    def mark(self) -> tuple[Any, ...]:
        """What there is now, to come back to after a compile that did not succeed."""
        places = (dict(self.by_name), dict(self.by_place))
        return *places, self.bottom_bytes, self.host_bottom_bytes, self.on_disk

    def back_to(self, mark: tuple[Any, ...]) -> None:
        self.by_name, self.by_place, *bottoms, self.on_disk = mark
        self.bottom_bytes, self.host_bottom_bytes = bottoms

    def places(self) -> _core.Places:
        """All of them, as the planner knows them."""
        homes = [
            _core.SharedHome(h.name, h.size_bytes, h.may_be_below, h.is_below, h.offset_bytes)
            for h in self.by_name.values()
        ]
        return _core.Places(homes, self.bottom_bytes, self.host_bottom_bytes, self.on_disk)

    def take(self, places: _core.Places) -> None:
        """Where the planner has them."""
        for at in places.homes:
            home = self.by_name[at.name]
            home.is_below, home.offset_bytes = at.is_below, at.offset_bytes
        self.by_place = {home.place: home for home in self.by_name.values()}
        self.bottom_bytes = places.bottom_bytes
        self.host_bottom_bytes, self.on_disk = places.host_bottom_bytes, places.on_disk


def check_own_memory(name: str, tensor: torch.Tensor) -> None:
    """Raises CaptureError for a tensor whose memory belongs to other processes too."""
    if tensor.device.type == "cpu" and tensor.is_shared():
        raise CaptureError(
            f"{name} is in memory that processes share (share_memory()), and a compiled step keeps "
            "it in memory of its own, where the other processes would not see it",
            todo="give other processes copies, such as {name: t.clone() for name, t in "
            "model.state_dict().items()}, or train this model with plain PyTorch",
        )


def check_may_move_in(home: Home, tensor: torch.Tensor) -> None:
    """Raises FitstepError where a tensor does not fill its home, CaptureError as the above."""
    check_own_memory(home.name, tensor)
    if _core.storage_bytes(tensor) != home.size_bytes:
        raise FitstepError(
            f"{home.name} has {home.size_bytes} bytes in the arena, and a tensor of "
            f"{_core.storage_bytes(tensor)} bytes is in its place",
            todo="close() the compiled step and compile again after replacing tensors",
        )
