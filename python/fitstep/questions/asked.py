"""A step about which something is asked: its programs, measured, in a session without an arena."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .. import _core
from ..errors import CaptureError, SettingError, not_prepared
from ..follow.maker import Maker
from ..memory.planned import Planned
from ..memory.planning import Planning
from ..memory.profile_cache import ProfileCache
from ..memory.seen_memory import fill_hollow_tensors
from ..memory.session import Session
from ..steps.making import Making
from ..steps.programs import add_homes, held_beside, plain_peak_of
from ..steps.sessions import ghosts

Show = Callable[[str, float], None] | None


@dataclass(eq=False)
class Asked:
    """The programs of a step's first calls, as `compile` would plan them."""

    planning: Planning
    programs: list[Planned]
    steady: list[int]  # Which of them a steady step runs, in order: several if it asks for values.
    beside: list[int]  # For each, the bytes of parameters and state that only others use.

    @property
    def plain_peak_bytes(self) -> int:
        """What plain PyTorch needs for the largest of the programs."""
        each = zip(self.programs, self.beside, strict=True)
        return max(int(one.step.plain_peak_bytes()) + more for one, more in each)

    @classmethod
    def of(
        cls, making: Making, args: tuple[Any, ...], show: Show, *, keeps_to_budget: bool = False
    ) -> Asked:
        """Previews the step, measures its operators, and puts everything back. Raises CaptureError,
        BudgetError, DiskError, and what the step function raises; for an operator that is too large
        to be measured TooLarge or FitstepError, as ProfileCache.lower()."""
        if making.plan is not None:
            raise SettingError("plan", "a file", "left out: a question looks for a plan itself")
        _, device = making.subject.look(args, {})
        session = Session(making.settings.on(device), device)
        cache = ProfileCache(device)
        cache.keeps_to_budget = keeps_to_budget
        cache.progress = session.settings.progress = show
        maker = Maker(
            making.subject.function, making.subject.find_reach, session, cache, making.keep_grads
        )
        try:
            preview = maker.preview(args, {})
        except _core.CoreError as error:
            raise not_prepared(error) from None
        except BaseException:
            fill_hollow_tensors(ghosts())
            raise
        if preview.stop is not None:
            raise CaptureError(
                f"fitstep cannot tell for the whole step, because its preview ends here: "
                f"{preview.stop.why}",
                where=preview.stop.where,
                todo="ask about a function without it; fitstep.compile plans the rest in its first "
                "calls",
            )
        variants = preview.variants
        add_homes(variants, session)
        session.planning.set_budget(plain_peak_of(variants), cache)
        programs = [Planned.of(variant.step, session.settings) for variant in variants]
        if not programs:
            raise CaptureError(
                "the step calls no operator that fitstep plans",
                todo="pass a function that does one whole training step",
            )
        return cls(session.planning, programs, preview.steady, held_beside(variants))
