"""Homes: the places of parameters, buffers and optimizer state between steps, stacked as they came.

arena   | home | home | home |          host tier   | home | home |
        0                    bottom                 0             host bottom
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import Any

import torch

from .. import _core
from ..errors import CaptureError, FitstepError


@dataclass(eq=False)
class Home:
    """The place of one persistent storage between steps."""

    name: str
    offset_bytes: int  # In the arena, or in the host tier or file if `is_below`.
    size_bytes: int
    is_below: bool = False  # On the host tier or on the disk, not in the arena.
    may_be_below: bool = True  # False for a CPU tensor beside a GPU, which is in no tier.
    storage: weakref.ref[Any] | None = None  # Of its tensor; None before there is one.
    tensor: torch.Tensor | None = None

    @property
    def place(self) -> tuple[bool, int]:
        """(is_below, offset in bytes): how the core names the place."""
        return self.is_below, self.offset_bytes


class Homes:
    """The homes of one arena. Once the arena is open, no home moves."""

    def __init__(self, alignment_bytes: int = _core.ALIGNMENT_BYTES) -> None:
        self._alignment_bytes = alignment_bytes
        self.clear()

    def clear(self) -> None:
        """There are no homes, as in an arena that was never open."""
        self.by_name: dict[str, Home] = {}
        self.by_place: dict[tuple[bool, int], Home] = {}
        self.bottom_bytes = 0
        self.host_bottom_bytes = 0
        self.on_disk = False  # Homes with `is_below` are on the disk, not on the host tier.

    def add(self, name: str, size_bytes: int, *, may_be_below: bool = True) -> None:
        """Adds a home at the arena's bottom, unless there is one of this name and size."""
        known = self.by_name.get(name)
        if known is not None and known.size_bytes == size_bytes:
            return
        home = Home(name, self.bottom_bytes, size_bytes, may_be_below=may_be_below)
        units = -(-size_bytes // self._alignment_bytes)
        self.bottom_bytes += units * self._alignment_bytes
        self.by_name[name] = self.by_place[home.place] = home

    def mark(self) -> tuple[Any, ...]:
        """A snapshot for `back_to`, in case a compile fails."""
        places = (dict(self.by_name), dict(self.by_place))
        return *places, self.bottom_bytes, self.host_bottom_bytes, self.on_disk

    def back_to(self, mark: tuple[Any, ...]) -> None:
        self.by_name, self.by_place, *bottoms, self.on_disk = mark
        self.bottom_bytes, self.host_bottom_bytes = bottoms

    def places(self) -> _core.Places:
        """All homes in the planner's form."""
        homes = [
            _core.SharedHome(h.name, h.size_bytes, h.may_be_below, h.is_below, h.offset_bytes)
            for h in self.by_name.values()
        ]
        return _core.Places(homes, self.bottom_bytes, self.host_bottom_bytes, self.on_disk)

    def take(self, places: _core.Places) -> None:
        """Takes over the places that the planner chose."""
        for at in places.homes:
            home = self.by_name[at.name]
            home.is_below, home.offset_bytes = at.is_below, at.offset_bytes
        self.by_place = {home.place: home for home in self.by_name.values()}
        self.bottom_bytes = places.bottom_bytes
        self.host_bottom_bytes, self.on_disk = places.host_bottom_bytes, places.on_disk


def check_own_memory(name: str, tensor: torch.Tensor) -> None:
    """Raises CaptureError for a tensor in shared memory."""
    if tensor.device.type == "cpu" and tensor.is_shared():
        raise CaptureError(
            f"{name} is in memory that processes share (share_memory()); a compiled step moves it "
            "into its own arena, which the other processes do not see",
            todo="give other processes copies, such as {name: t.clone() for name, t in "
            "model.state_dict().items()}, or train this model with plain PyTorch",
        )


def check_may_move_in(home: Home, tensor: torch.Tensor) -> None:
    """Raises FitstepError if sizes of tensor and home differ, CaptureError for shared memory."""
    check_own_memory(home.name, tensor)
    if _core.storage_bytes(tensor) != home.size_bytes:
        raise FitstepError(
            f"the step was planned for {home.size_bytes} bytes of {home.name}, which has "
            f"{_core.storage_bytes(tensor)} bytes now",
            todo="call step.close() and compile again after a change of size",
        )
