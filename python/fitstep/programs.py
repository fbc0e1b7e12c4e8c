"""The programs of a step: a variant for each segment that its calls have, up to a number."""

from __future__ import annotations

from typing import Any

import torch

from .addresses import check_no_address
from .ambient import ambient
from .audits import Audits
from .describe import describe_op
from .errors import BudgetTooSmall, CaptureError
from .maker import Maker
from .planned import Planned
from .seen_memory import ArrayIsAlive, check_not_lent
from .session import Session
from .uninterrupted import uninterrupted
from .variants import Recorded, Variant

_MOST_IN_CALL = 8  # Times the variants that are kept.


class Programs:
    """Of one step. `follower` is told of the segments that have programs."""

    def __init__(
        self, maker: Maker, session: Session, most: int, audits: Audits, follower: Any
    ) -> None:
        self.maker, self.session, self.audits = maker, session, audits
        self.variants: list[Variant] = []  # In the order in which they were made.
        self.previewed = 0  # Variants that compile has found.
        self.last: Variant | None = None  # To have run.
        self.dropping: dict[int, torch.Tensor] = {}  # Parameters whose gradients a call drops.
        self.plain_peak_bytes = 0
        self._most_variants = most
        self._follower = follower
        self._used = self._used_before = 0  # Runs of variants; and before the present call.
        self._in_call = 0  # Variants that a call has run, less with each call that has run fewer.
        session.programs.add(self)

    def add(self, variants: list[Variant], plan: Any = None) -> None:
        """Plans, verifies and makes ready. Raises before anything of the user's has changed; where
        the arena has to grow and cannot, all programs of the session are to be made anew."""
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
        peaks = [v.step.plain_peak_bytes() for v in variants]
        self.plain_peak_bytes = max([self.plain_peak_bytes, *peaks])
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
        """Twice those of compile or of a call, as each may take another branch."""
        in_call = min(2 * self._in_call, _MOST_IN_CALL * self._most_variants)
        return max(self._most_variants, 2 * self.previewed, in_call)

    @property
    def has_room(self) -> bool:
        """For one more variant, with none forgotten."""
        return len(self.variants) < self._most

    def make_room(self) -> None:
        """At a call's end: forgets the variants that were used least recently, where there are too
        many. A call that needs more keeps them, or the next one would make them anew."""
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
        """The program is never run again."""
        self.variants.remove(variant)
        self.session.planning.forget(variant.planned)

    def _forget_all(self) -> None:
        """There is no arena, and no program of the session."""
        session = self.session
        for programs in session.programs:
            programs.variants, programs.previewed = [], 0
        self._follower.set_known([])
        session.leave_arena()
        session.planning.places.clear()

    def add_in_call(self, variant: Variant, one: Recorded) -> Variant:
        """Makes the variant of what a call has recorded ready; or another one for the same."""
        try:
            self.add([variant])
        except ArrayIsAlive:  # What it shows stays where it is; all programs are to be made anew.
            self._check_no_address(self._at_home())
            self._forget_all()
            variant = self.maker.take_up(one)
            self.add([variant])
            self._follower.add_known(variant.segment)
        return variant

    def variant_of(self, segment: Any) -> Variant:
        """The variant of a known segment."""
        return next(v for v in self.variants if v.segment is segment)

    def take_up(self, one: Recorded) -> Variant:
        """The variant of a segment that a call has and nobody knew."""
        variant = self.maker.take_up(one)
        self.maker.cache.write(at_once=False)
        made = self.add_in_call(variant, one)
        if made is variant:
            self._follower.add_known(variant.segment)
        return made

    def begin_call(self) -> None:
        """Those that run from now on are this call's."""
        self._used_before = self._used

    def known(self) -> list[Any]:
        """The segments to follow, that which ran last first."""
        now = ambient()
        fitting = [v for v in self.variants if v.ambient == now]
        return [v.segment for v in sorted(fitting, key=lambda v: -v.last_used)]

    def note(self, variant: Variant, seconds: float) -> None:
        """One more run of a variant."""
        self._used += 1
        variant.last_used = self._used
        variant.note_run(seconds)
        self.last = variant

    @property
    def unrepeatable(self) -> list[str]:
        """Operators that do not repeat their own bits from run to run, with the user's line."""
        return sorted(
            {describe_op(v.step, op) for v in self.variants for op in v.step.unrepeatable()}
        )


def add_homes(variants: list[Variant], session: Session) -> dict[str, torch.Tensor]:
    """Makes places for all that has to be at home. Returns what is there already."""
    tensors: dict[str, torch.Tensor] = {}
    for variant in variants:
        for name, (size, on_device) in variant.sizes.items():
            session.planning.places.add(name, size, may_be_below=on_device)
        for name, tensor in variant.tensors.items():
            tensors.setdefault(name, tensor)
        variant.tensors = {}
    return tensors
