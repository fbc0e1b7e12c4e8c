"""Homes: the places of persistent storages between steps, in the order in which they came.

arena   | home | home | home |          host tier   | home | home |
        0                    bottom                 0             host bottom
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch

from . import _core
from .errors import CaptureError, FitstepError

# What the planner is asked where it may choose the tiers by itself.
FREE_HOMES: dict[str, Any] = {"homes": {}, "bottom_bytes": 0, "host_bottom_bytes": 0}


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
        self.by_name: dict[str, Home] = {}
        self.by_place: dict[tuple[bool, int], Home] = {}
        self.bottom_bytes = 0
        self.host_bottom_bytes = 0
        self._unit_below = alignment_bytes

    def add(self, name: str, size_bytes: int, *, may_be_below: bool = True) -> None:
        """A home in the arena, unless there is one of that name and size."""
        known = self.by_name.get(name)
        if known is None or known.size_bytes != size_bytes:
            self._stack(Home(name, 0, size_bytes, may_be_below=may_be_below))

    def mark(self) -> tuple[Any, ...]:
        """What there is now, to come back to after a compile that did not succeed."""
        places = (dict(self.by_name), dict(self.by_place))
        return *places, self.bottom_bytes, self.host_bottom_bytes

    def back_to(self, mark: tuple[Any, ...]) -> None:
        self.by_name, self.by_place, self.bottom_bytes, self.host_bottom_bytes = mark

    def size_on_disk(self) -> int:
        """What all of them would take there."""
        block_bytes = _core.DISK_ALIGNMENT_BYTES
        return sum(_rounded(home.size_bytes, block_bytes) for home in self.by_name.values())

    def put_below(self, names: set[str], *, on_disk: bool = False) -> None:
        """Has these on the host tier, or on the disk, and the others in the arena.

        REQUIRES: the arena is not open yet.
        """
        self._unit_below = _core.DISK_ALIGNMENT_BYTES if on_disk else self._alignment_bytes
        homes = list(self.by_name.values())
        for home in homes:
            is_wanted = home.name in names and home.size_bytes > 0
            home.is_below = is_wanted and home.may_be_below
        self._stack_again(homes)

    def options(self) -> dict[str, Any]:
        """What the planner has to know about them."""
        return {
            "homes": {home.name: home.place for home in self.by_name.values()},
            "bottom_bytes": self.bottom_bytes,
            "host_bottom_bytes": self.host_bottom_bytes,
        }

    def _stack(self, home: Home) -> None:
        if home.is_below:
            home.offset_bytes = self.host_bottom_bytes
            self.host_bottom_bytes += _rounded(home.size_bytes, self._unit_below)
        else:
            home.offset_bytes = self.bottom_bytes
            self.bottom_bytes += _rounded(home.size_bytes, self._alignment_bytes)
        self.by_name[home.name] = home
        self.by_place[home.place] = home

    def _stack_again(self, homes: Iterable[Home]) -> None:
        self.by_name, self.by_place = {}, {}
        self.bottom_bytes = self.host_bottom_bytes = 0
        for home in homes:
            self._stack(home)


def _rounded(size_bytes: int, unit_bytes: int) -> int:
    return -(-size_bytes // unit_bytes) * unit_bytes


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
