"""A step about which something is asked: its programs, measured, in a session without an arena."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..base.describe import describe
from ..errors import CaptureError, SettingError, not_prepared
from ..follow.maker import Maker
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
    """An operator needs more than the most bytes that measuring may take."""

    def __init__(self, size_bytes: int, most_bytes: int, culprit: str, plain_peak_bytes: int):
        super().__init__()
        self.size_bytes, self.most_bytes = size_bytes, most_bytes
        self.culprit, self.plain_peak_bytes = culprit, plain_peak_bytes


class LimitedCache(ProfileCache):
    """A ProfileCache that measures no program with an operator that reads or writes more than
    `most_bytes` at once; None: all are measured."""

    most_bytes: int | None = None

    def under(self, settings: tuple[object, ...]) -> ProfileCache:
        found = super().under(settings)
        if isinstance(found, LimitedCache):
            found.most_bytes = self.most_bytes
        return found

    def lower(self, recorder: Any, session: Session) -> Any:
        if self.most_bytes is not None:
            with contextlib.suppress(_core.CoreError):  # lower() raises it with advice.
                self._check(_core.lower(recorder), self.most_bytes)
        return super().lower(recorder, session)

    @staticmethod
    def _check(step: Any, most_bytes: int) -> None:
        op, size_bytes = step.largest_access()
        if size_bytes > most_bytes:
            culprit = describe(step, (op, size_bytes))
            raise TooLarge(size_bytes, most_bytes, culprit, step.plain_peak_bytes())


@dataclass(eq=False)
class Asked:
    """The programs of a step's first calls, as `compile` would plan them."""

    planning: Planning
    programs: list[Planned]  # The last is that of the steady step.
    plain_peak_bytes: int  # What plain PyTorch needs for the largest of them.

    @classmethod
    def of(
        cls, making: Making, args: tuple[Any, ...], show: Show, most_bytes: int | None = None
    ) -> Asked:
        """Previews the step, measures its operators, and puts everything back. Raises CaptureError,
        BudgetError, DiskError, what the step function raises, and TooLarge if an operator needs
        more than `most_bytes`."""
        if making.plan is not None:
            raise SettingError("plan", "a file", "left out: a question looks for a plan itself")
        _, device = making.subject.look(args, {})
        session = Session(making.settings.on(device), device)
        cache = LimitedCache(device)
        cache.most_bytes = most_bytes
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
