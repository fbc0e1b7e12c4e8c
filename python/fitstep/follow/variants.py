"""Variants: the programs of a step function, and where each of their storages lies.

storage of a segment               in Python                     where it lies
existed before, persistent         parameters, buffers, state    in a home
existed before, others             arguments, constants          outside the arena, where it was
made, and used by a later call     optimizer state, gradients    in a home, from then on
made, and still held at the end    results, kept tensors         outside the arena
made, and gone                     -                             at a planned address
"""

from __future__ import annotations

import statistics
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from ..base.ambient import ambient
from ..base.describe import counted
from ..memory.homes import check_own_memory
from ..memory.planned import Planned
from ..memory.seen_memory import stays_where_it_is

if TYPE_CHECKING:
    from ..memory.session import Session
    from ..state import Reach

KINDS = {
    "parameter": "parameter",
    "buffer": "buffer",
    "optimizer_state": "optimizer_state",
    "group": "optimizer_state",
    "grad": "gradient",
}


_TIMED_RUNS = 1000  # The typical time is the median of so many last runs.


@dataclass
class Measured:
    """Measured times of the runs of one variant."""

    runs: int = 0
    timed: int = 0
    # A ring of the last runs, allocated at once: a step must not need more memory run by run.
    seconds: array[float] = field(default_factory=lambda: array("d", bytes(8 * _TIMED_RUNS)))

    def note(self, seconds: float | None) -> None:
        """Notes a run; None if its time is not known."""
        self.runs += 1
        if seconds is not None:
            self.seconds[self.timed % _TIMED_RUNS] = seconds
            self.timed += 1

    def typical_s(self) -> float | None:
        """The median in seconds; None without timed runs."""
        return statistics.median(self.seconds[: self.timed]) if self.timed else None


@dataclass(eq=False)
class Recorded:
    """A new segment, with the tensors that it uses and leaves."""

    segment: Any  # _core.Segment
    externals: list[torch.Tensor]  # Existed before; in the order of segment.externals().
    survivors: list[tuple[int, torch.Tensor]]  # (storage on the tape, result that is still held).
    roles: dict[int, tuple[str, str]]  # By storage id: (role, name).
    arguments: frozenset[int]  # Storage ids of the call's arguments.
    call: int = 0  # Number of the call in a preview.
    part: int = 0  # Number of the segment in the call.
    label: str = "step"
    dropped: frozenset[int] = frozenset()  # Storage ids of gradients that the call's end clears.
    ambient: tuple[object, ...] = field(default_factory=ambient)


@dataclass(eq=False, repr=False)
class Variant:
    """One program of a step function: a segment, its plan, and where its tensors are."""

    segment: Any
    step: Any  # _core.StepProgram
    label: str
    homes: list[tuple[int, str]] = field(default_factory=list)  # (index of an external, home).
    # Inputs: (storage of the program, byte offset of the tensor in it, or None for any).
    externals: list[tuple[int, int | None]] = field(default_factory=list)
    sources: list[int] = field(default_factory=list)  # For each input: the index of its external.
    fresh: dict[int, str] = field(default_factory=dict)  # Storage on the tape -> home.
    outputs: dict[int, int] = field(default_factory=dict)  # Storage on the tape -> output.
    tensors: dict[str, torch.Tensor] = field(default_factory=dict)  # By home: tensors to move in.
    sizes: dict[str, tuple[int, bool]] = field(default_factory=dict)  # Home -> (bytes, on device).
    planned: Planned | None = None
    last_used: int = 0
    measured: Measured | None = None  # None before the first run.
    ambient: tuple[object, ...] = field(default_factory=ambient)

    def __repr__(self) -> str:
        runs = self.measured.runs if self.measured else 0
        return f"<{self.label}: {counted(self.step.op_count(), 'op')}, {counted(runs, 'run')}>"

    def note_run(self, seconds: float) -> None:
        self.measured = self.measured or Measured()
        self.measured.note(seconds)

    def note_homes(self, session: Session) -> None:
        """Tells the segment the addresses of its tensors' homes."""
        numbers = self.segment.externals()
        for place, name in self.homes:
            self.segment.expect_at(numbers[place], session.arena.address_of(name))


def storage_id(tensor: torch.Tensor) -> int:
    """The id of a tensor's storage, unique as long as the storage lives."""
    return int(_core.storage_id(tensor))


def roles_of(reach: Reach, session: Session) -> dict[int, tuple[str, str]]:
    """(role, name) of the tensors within reach, by storage id. Of several roles, the first of
    KINDS counts; "closure" is any other tensor."""
    found: dict[int, tuple[str, str]] = {}
    places = [place for place in reach.tensors if place.tensor.layout is torch.strided]
    for wanted in KINDS:
        for place in places:
            if place.role != wanted:
                continue
            if place.leaf is not None:
                name = f"{_name(place.leaf, reach, session)}.grad"
            else:
                name = _name(place.tensor, reach, session)
            found.setdefault(storage_id(place.tensor), (wanted, name))
    for place in places:
        name = reach.name(place.tensor)
        found.setdefault(storage_id(place.tensor), ("closure", name))
    return found


def _name(tensor: torch.Tensor, reach: Reach, session: Session) -> str:
    return session.name_of(tensor, reach.name(tensor))


class Binder:
    """Decides for each storage of a segment: a home, an input, a constant, an output or planned."""

    def __init__(self, session: Session, keeps_grads: bool) -> None:
        self._session = session
        self._keeps_grads = keeps_grads
        self._made: dict[int, tuple[Recorded, int]] = {}  # By storage id: the segment that made it.
        self._bound: dict[int, str] = {}  # By storage id: its home.
        self._sizes: dict[str, int] = {}  # By home: bytes.

    def bind(self, recorded: list[Recorded]) -> list[Variant]:
        """One variant for each segment, in order, not lowered yet. Takes all segments of a preview
        at once: a tensor that one makes and a later one uses gets a home."""
        for one in recorded:
            one.segment.unbind()  # A known segment may be bound to other homes.
            for number, tensor in one.survivors:
                self._made[storage_id(tensor)] = (one, number)
        in_use = self.grads_in_use(recorded)
        variants = [Variant(one.segment, None, one.label, ambient=one.ambient) for one in recorded]
        by_segment = {id(one): variant for one, variant in zip(recorded, variants, strict=True)}
        for one, variant in zip(recorded, variants, strict=True):
            self._bind_met(one, variant, in_use, by_segment)
        for one, variant in zip(recorded, variants, strict=True):
            self._bind_made(one, variant, in_use)
            one.segment.settle()
        return variants

    def grads_in_use(self, recorded: list[Recorded]) -> bool:
        """Whether a call reads gradients that an earlier call left."""
        if self._keeps_grads or self._session.grads_in_use:
            return True
        for one in recorded:
            for tensor in one.externals:
                role = one.roles.get(storage_id(tensor), ("", ""))[0]
                maker = self._made.get(storage_id(tensor))
                if role == "grad" and (maker is None or maker[0].call != one.call):
                    return True
        return False

    def _bind_met(
        self,
        one: Recorded,
        variant: Variant,
        in_use: bool,
        by_segment: dict[int, Variant],
    ) -> None:
        numbers = one.segment.externals()
        written = one.segment.written()
        homes = [self._session.arena.home_of(tensor) for tensor in one.externals]
        taken = {home.name for home in homes if home is not None}
        for place, (number, tensor) in enumerate(zip(numbers, one.externals, strict=True)):
            storage = storage_id(tensor)
            role, name = one.roles.get(storage, ("", ""))
            maker = self._made.get(storage)
            is_own = maker is not None and maker[0].call == one.call and role not in KINDS
            home = homes[place]
            if maker is not None and name in [of for _, of in by_segment[id(maker[0])].homes]:
                is_own = True  # Another tensor was in this home when the storage was made.
            is_new = maker is None and _core.is_hollow(tensor)  # A custom operator made it.
            stays = home is None and stays_where_it_is(tensor, self._session)
            is_home = home is not None or (
                _core.storage_bytes(tensor) > 0
                and not stays
                and (role in KINDS or (role and number in written and storage not in one.arguments))
                and (role in KINDS or not is_new)
                and not is_own
            )
            if not is_home:
                is_input = storage in one.arguments or maker is not None or stays or not role
                kind = "input" if is_input else "constant"
                one.segment.set_external(number, name or f"{kind} {place}", kind, False)
                if stays and role in KINDS:  # Other arrays may change while the step runs.
                    check_own_memory(name, tensor)
                    one.segment.keep_state(number)
                continue
            if home is not None:
                name = home.name
            else:
                name = self._bound.get(storage) or self._sized(name, tensor)
                while name in taken:  # User code exchanged two tensors that the segment uses.
                    name += ", moved"
                self._bound[storage] = name
            taken.add(name)
            kind = KINDS.get(role, "buffer")
            one.segment.set_external(number, name, kind, True)
            variant.homes.append((place, name))
            self._add_size(variant, name, tensor)
            if maker is not None:
                by_segment[id(maker[0])].fresh[maker[1]] = name
                maker[0].segment.adopt(maker[1], name, kind)
            elif not _core.is_hollow(tensor):
                variant.tensors[name] = tensor

    def _bind_made(self, one: Recorded, variant: Variant, in_use: bool) -> None:
        for number, tensor in one.survivors:
            storage = storage_id(tensor)
            role, name = one.roles.get(storage, ("", ""))
            if number in variant.fresh:
                self._add_size(variant, variant.fresh[number], tensor)
                continue
            if role == "grad" and not in_use and storage in one.dropped:
                continue
            is_kept = role == "optimizer_state" or (role == "grad" and in_use)
            if name in [*(of for _, of in variant.homes), *variant.fresh.values()]:
                is_kept = False  # In this home it would overwrite what the segment reads.
            if is_kept and _core.storage_bytes(tensor) > 0:
                name = self._sized(name, tensor)
                variant.fresh[number] = name
                one.segment.adopt(number, name, KINDS[role])
                self._add_size(variant, name, tensor)
                continue
            variant.outputs[number] = len(variant.outputs)
            one.segment.give_out(number)

    def _add_size(self, variant: Variant, name: str, tensor: torch.Tensor) -> None:
        on_device = tensor.device == self._session.torch_device
        variant.sizes[name] = int(_core.storage_bytes(tensor)), on_device

    def _sized(self, name: str, tensor: torch.Tensor) -> str:
        """A name that no home of another size has, because a buffer may have grown."""
        size = int(_core.storage_bytes(tensor))
        if not name:
            return self._session.name_of(tensor, f"closed-over tensor {tuple(tensor.shape)}")
        known = self._session.homes.get(name)
        first = self._sizes.setdefault(name, size if known is None else known.size_bytes)
        return name if first == size else f"{name} of {size} bytes"


def lower(variant: Variant, recorded: Recorded, session: Session, cache: Any) -> None:
    """Gives the variant its program. Raises CaptureError for an operator that it cannot have."""
    variant.step = cache.lower(variant.segment, session)
    variant.step.set_name(variant.label)
    at_home = {place for place, _ in variant.homes}
    variant.externals, variant.sources = [], []
    numbers = variant.segment.externals()
    for place, (number, tensor) in enumerate(zip(numbers, recorded.externals, strict=True)):
        storage = variant.step.storage_of_tape(number)
        if place in at_home or storage < 0 or _core.storage_bytes(tensor) == 0:
            continue
        variant.externals.append((storage, variant.segment.first_bytes(number)))
        variant.sources.append(place)
