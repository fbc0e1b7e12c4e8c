"""A step about which something is asked: its programs, measured, in a session without an arena."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..base.describe import describe
from ..errors import CaptureError, FitstepError, SettingError, not_prepared
from ..follow.maker import Maker
from ..memory.device import free_bytes_of
from ..memory.planned import Planned
from ..memory.planning import Planning
from ..memory.profile_cache import ProfileCache
from ..memory.seen_memory import fill_hollow_tensors
from ..memory.session import Session
from ..steps.making import Making
from ..steps.programs import add_homes
from ..steps.sessions import ghosts

Show = Callable[[str, float], None] | None


class TooLarge(Exception):
    """An operator reads or writes more than the budget at once, so nothing else has to be known."""

    def __init__(self, size_bytes: int, budget_bytes: int, culprit: str, plain_peak_bytes: int):
        super().__init__()
        self.size_bytes, self.budget_bytes = size_bytes, budget_bytes
        self.culprit, self.plain_peak_bytes = culprit, plain_peak_bytes


class LimitedCache(ProfileCache):
    """A ProfileCache that measures no program with an operator that is larger than the free memory,
    or than the budget if `keeps_to_budget`."""

    keeps_to_budget = False

    def under(self, settings: tuple[object, ...]) -> ProfileCache:
        found = super().under(settings)
        if isinstance(found, LimitedCache):
            found.keeps_to_budget = self.keeps_to_budget
        return found

    def lower(self, recorder: Any, session: Session) -> Any:
        with contextlib.suppress(_core.CoreError):  # lower() raises it with advice.
            self._check(_core.lower(recorder), session.planning)
        return super().lower(recorder, session)

    def _check(self, step: Any, planning: Planning) -> None:
        """Raises TooLarge, or FitstepError if the budget would be enough for the operator."""
        op, size_bytes = step.largest_access()
        peak_bytes = step.plain_peak_bytes()
        budget_bytes = planning.asked_bytes(peak_bytes)
        free_bytes = free_bytes_of(planning.device)
        if size_bytes <= (min(budget_bytes, free_bytes) if self.keeps_to_budget else free_bytes):
            return
        culprit = describe(step, (op, size_bytes))
        if size_bytes > budget_bytes:
            raise TooLarge(size_bytes, budget_bytes, culprit, peak_bytes)
        raise FitstepError(
            f"{culprit} at once, more than the {_core.format_bytes(free_bytes)} of memory that are "
            "free, so fitstep cannot measure it",
            todo="free memory, or ask about a smaller batch",
        )


@dataclass(eq=False)
class Asked:
    """The programs of a step's first calls, as `compile` would plan them."""

    planning: Planning
    programs: list[Planned]  # The last is that of the steady step.
    plain_peak_bytes: int  # What plain PyTorch needs for the largest of them.

    @classmethod
    def of(
        cls, making: Making, args: tuple[Any, ...], show: Show, *, keeps_to_budget: bool = False
    ) -> Asked:
        """Previews the step, measures its operators, and puts everything back. Raises CaptureError,
        BudgetError, DiskError, and what the step function raises. Measures no operator that is
        larger than the free memory: raises TooLarge if it is larger than the budget, too, else
        FitstepError. If `keeps_to_budget`, none that is larger than the budget either."""
        if making.plan is not None:
            raise SettingError("plan", "a file", "left out: a question looks for a plan itself")
        _, device = making.subject.look(args, {})
        session = Session(making.settings.on(device), device)
        cache = LimitedCache(device)
        cache.keeps_to_budget = keeps_to_budget
        cache.progress = session.settings.progress = show
        maker = Maker(
            making.subject.function, making.subject.find_reach, session, cache, making.keep_grads
        )
        try:
            variants = maker.preview(args, {}).variants
        except _core.CoreError as error:
            raise not_prepared(error) from None
        except BaseException:
            fill_hollow_tensors(ghosts())
            raise
        add_homes(variants, session)
        peak_bytes = max((variant.step.plain_peak_bytes() for variant in variants), default=0)
        session.planning.set_budget(peak_bytes, cache)
        programs = [Planned.of(variant.step, session.settings) for variant in variants]
        if not programs:
            raise CaptureError(
                "the step calls no operator that fitstep plans",
                todo="pass a function that does one whole training step",
            )
        return cls(session.planning, programs, peak_bytes)
