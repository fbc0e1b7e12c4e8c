"""The programs of a step: one variant for each different segment of its calls, up to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from ..base.ambient import ambient
from ..base.describe import describe_op
from ..base.uninterrupted import uninterrupted
from ..errors import BudgetTooSmall, CaptureError
from ..follow.maker import Maker
from ..follow.variants import Recorded, Variant
from ..memory.addresses import check_no_address
from ..memory.planned import Planned
from ..memory.seen_memory import ArrayIsAlive, check_not_lent
from ..memory.session import Session
from .audits import Audits

_MOST_IN_CALL = 8  # A call may keep so many times `max_variants`.


class Programs:
    """The programs of one step. `follower` is told which segments have programs."""

    def __init__(
        self, maker: Maker, session: Session, most: int, audits: Audits, follower: Any
    ) -> None:
        self.maker, self.session, self.audits = maker, session, audits
        self.variants: list[Variant] = []  # In the order in which they were made.
        self.previewed = 0  # How many variants compile found.
        self.last: Variant | None = None  # The one that ran last.
        self.dropping: dict[int, torch.Tensor] = {}  # Parameters whose gradients a call clears.
        self.plain_peak_bytes = 0
        self._most_variants = most
        self._follower = follower
        self._used = self._used_before = 0  # Runs of variants: so far, and before this call.
        self._in_call = 0  # Most variants in a recent call; decays by 1 with each call.
        session.programs.add(self)

    def add(self, variants: list[Variant], plan: Any = None) -> None:
        """Plans and verifies the variants, and makes them ready to run. Raises before any user
        state has changed. If the arena has to grow and cannot, all programs are forgotten."""
        if not variants:
            return
        plain_peak_bytes = self.plain_peak_bytes
        try:
            self._add(variants, plan)
        except BaseException:
            self.plain_peak_bytes = plain_peak_bytes
            raise

    def _add(self, variants: list[Variant], plan: Any) -> None:
        self.audits.has_new = True
        session, planning = self.session, self.session.planning
        first = not session.arena.is_open
        self.plain_peak_bytes = max(self.plain_peak_bytes, plain_peak_of(variants, self.variants))
        if first:
            planning.set_budget(self.plain_peak_bytes, self.maker.cache)
        bottom, mark = session.bottom_bytes, planning.places.mark()
        tensors = add_homes(variants, session)
        new = [
            Planned.of(v.step, session.settings, plan if v is variants[-1] else None)
            for v in variants
        ]
        try:
            home_of = session.arena.home_of
            self._check_no_address({n: t for n, t in tensors.items() if not home_of(t)})
            grown = session.bottom_bytes > bottom and not first
            plans = planning.plan(new, replan=grown)
        except BudgetTooSmall:
            if first or not planning.is_free:
                planning.places.back_to(mark)
                raise
            try:
                check_not_lent(session.arena.lent(), lambda t: session.name_of(t, "a tensor"))
                check_no_address(self.maker.find_reach(), self._at_home(), is_growing=True)
            except (ArrayIsAlive, CaptureError):
                planning.places.back_to(mark)
                raise
            with uninterrupted():
                try:
                    session.grow(new, self.plain_peak_bytes, tensors)
                except BaseException:
                    self._forget_all()
                    raise
                self._settle(variants, new, replanned=False)
                for programs in session.programs:
                    for variant in programs.variants:
                        variant.note_homes(session)
            return
        except BaseException:
            planning.places.back_to(mark)
            raise
        with uninterrupted():  # All tensors move into their homes, or none.
            try:
                session.open(plans, tensors)
            except BaseException:
                planning.places.back_to(mark)
                raise
            self._settle(variants, plans, grown)

    def _check_no_address(self, moving: dict[str, torch.Tensor]) -> None:
        if moving:
            check_no_address(self.maker.find_reach(), moving)

    def _at_home(self) -> dict[str, torch.Tensor]:
        homes = self.session.homes
        return {name: home.tensor for name, home in homes.items() if home.tensor is not None}

    @property
    def _most(self) -> int:
        """How many variants to keep: twice those of compile or of a call fit at least, as the next
        call may take another branch."""
        in_call = min(2 * self._in_call, _MOST_IN_CALL * self._most_variants)
        return max(self._most_variants, 2 * self.previewed, in_call)

    @property
    def has_room(self) -> bool:
        """Whether one more variant fits without forgetting another."""
        return len(self.variants) < self._most

    def make_room(self) -> None:
        """At a call's end: forgets the least recently used variants, if there are too many. Those
        of a call that needs more than the limit stay, because the next call needs them again."""
        in_call = sum(one.last_used > self._used_before for one in self.variants)
        self._in_call = max(in_call, self._in_call - 1)
        spare = len(self.variants) - self._most
        for old in sorted(self.variants, key=lambda variant: variant.last_used)[: max(spare, 0)]:
            self.variants.remove(old)
            self.session.planning.forget(old.planned)

    def _settle(self, variants: list[Variant], plans: list[Planned], replanned: bool) -> None:
        session, known = self.session, self.session.planning.planned
        if replanned:
            for old, new in zip(known, plans, strict=False):
                old.take_over(new)
            plans = plans[len(known) :]
        for variant, planned in zip(variants, plans, strict=True):
            variant.planned = planned
            known.append(planned)
            variant.note_homes(session)
        self.variants += variants

    def forget(self, variant: Variant) -> None:
        """Drops a program, which never runs again."""
        self.variants.remove(variant)
        self.session.planning.forget(variant.planned)

    def _forget_all(self) -> None:
        """Closes the arena and drops all programs of the session."""
        session = self.session
        for programs in session.programs:
            programs.variants, programs.previewed = [], 0
        self._follower.set_known([])
        session.leave_arena()
        session.planning.places.clear()

    def add_in_call(self, variant: Variant, one: Recorded) -> Variant:
        """Makes a call's new variant ready, or a new variant of the same recording; returns it."""
        try:
            self.add([variant])
        except ArrayIsAlive:  # The array's tensor must not move, so all programs are made again.
            self._check_no_address(self._at_home())
            self._forget_all()
            variant = self.maker.take_up(one)
            self.add([variant])
            self._follower.add_known(variant.segment)
        return variant

    def variant_of(self, segment: Any) -> Variant:
        return next(v for v in self.variants if v.segment is segment)

    def take_up(self, one: Recorded) -> Variant:
        """The variant of a call's new segment, ready to run."""
        variant = self.maker.take_up(one)
        if self.maker.cache.write(at_once=False):
            variant = self.maker.take_up(one)
        try:
            made = self.add_in_call(variant, one)
        except BudgetTooSmall:  # The next compile, with its budget, reads these times.
            self.maker.cache.write()
            raise
        if made is variant:
            self._follower.add_known(variant.segment)
        return made

    def begin_call(self) -> None:
        """Variants that run from now on are this call's."""
        self._used_before = self._used

    def known(self) -> list[Any]:
        """The segments for the present settings, the most recently used first."""
        now = ambient()
        fitting = [v for v in self.variants if v.ambient == now]
        return [v.segment for v in sorted(fitting, key=lambda v: -v.last_used)]

    def note(self, variant: Variant, seconds: float) -> None:
        """Notes a run of a variant."""
        self._used += 1
        variant.last_used = self._used
        variant.note_run(seconds)
        self.last = variant

    @property
    def unrepeatable(self) -> list[str]:
        """Operators whose bits differ from run to run, with file and line."""
        return sorted(
            {describe_op(v.step, op) for v in self.variants for op in v.step.unrepeatable()}
        )


def held_beside(variants: list[Variant], known: Sequence[Variant] = ()) -> list[int]:
    """For each variant, the bytes of parameters, buffers and optimizer state that only others use,
    `known` ones included: plain PyTorch holds them, too, while it runs this one."""
    every = (*known, *variants)
    sizes = {name: size for variant in every for name, (size, _) in variant.sizes.items()}
    lasting = {name: size for name, size in sizes.items() if not name.endswith(".grad")}
    return [
        sum(size for name, size in lasting.items() if name not in variant.sizes)
        for variant in variants
    ]


def plain_peak_of(variants: list[Variant], known: Sequence[Variant] = ()) -> int:
    """What plain PyTorch needs for the largest of `variants`, in bytes."""
    beside = held_beside(variants, known)
    return max(
        (int(one.step.plain_peak_bytes()) + n for one, n in zip(variants, beside, strict=True)),
        default=0,
    )


def add_homes(variants: list[Variant], session: Session) -> dict[str, torch.Tensor]:
    """Adds homes for the variants' persistent tensors. Returns the tensors to move in, by name."""
    tensors: dict[str, torch.Tensor] = {}
    for variant in variants:
        for name, (size, on_device) in variant.sizes.items():
            session.planning.places.add(name, size, may_be_below=on_device)
        for name, tensor in variant.tensors.items():
            tensors.setdefault(name, tensor)
        variant.tensors = {}
    return tensors
