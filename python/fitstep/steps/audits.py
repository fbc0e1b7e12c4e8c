"""Audits: calls in which plain PyTorch runs first, and each program must then give the same bits.

function   its operators run, as with plain PyTorch ─────────> results: the truth
segment    its writes are undone ─> the program runs ────────> the same bytes, or AuditError

The user's function runs once, on the user's objects. Audited are calls 1, 2 and 3 (a number that
changes from call to call shows from call 2 on), calls 30, 300 and so on, and the next call after
one that made a new program.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from .. import _core
from ..errors import AuditError
from ..memory.device import free_bytes_of
from ..memory.settings import check_choice
from ..state.rng import GeneratorStates

if TYPE_CHECKING:
    from ..follow.variants import Variant
    from ..memory.session import Session

_FIRST = 3
_KINDS = ("auto", "all", "off")


def check_audits(wanted: str | None) -> str:
    """ "auto", "all" or "off"; None asks $FITSTEP_AUDITS. Raises SettingError for other values."""
    found = os.environ.get("FITSTEP_AUDITS", "auto") if wanted is None else wanted
    check_choice("audits", found, _KINDS)
    return found


@dataclass
class Audits:
    """When a step is audited, and what the audits found."""

    wanted: str
    calls: int = 0
    audited_calls: int = 0
    compared_tensors: int = 0
    seconds: float = 0.0  # Of audited calls, without the time of their programs.
    why_not: str = ""  # Why the last audit that was due was skipped; "" if it was not.
    has_new: bool = False  # There is a program that no audit has run yet.

    def is_due(self, session: Session, plain_peak_bytes: int) -> bool:
        """Whether to audit the call that begins now; counts the call."""
        self.calls += 1
        if self.wanted == "off":
            return False
        if self.wanted != "all" and not self.has_new and not _is_early_or_round(self.calls):
            return False
        self.has_new = False  # Without free memory now, later calls do not ask again.
        self.why_not = _why_too_large(session, plain_peak_bytes)
        return not self.why_not


def _is_early_or_round(call: int) -> bool:
    return call < _FIRST or str(call).rstrip("0") == str(_FIRST)


def _why_too_large(session: Session, plain_peak_bytes: int) -> str:
    """Why an audit does not fit in free memory, or "". An audit needs plain PyTorch's peak and two
    copies of all homes, beside the arena."""
    needed = plain_peak_bytes + 2 * session.bottom_bytes
    free = free_bytes_of(session.device)
    if needed < free:
        return ""
    size = _core.format_bytes
    return f"plain PyTorch needs {size(needed)} beside the arena, and {size(free)} are free"


class Truth:
    """What plain PyTorch left in one segment of an audited call, while the program runs again.

    REQUIRES: operators are not followed meanwhile.
    """

    def __init__(
        self,
        targets: list[torch.Tensor],
        starts: list[Any],
        drawn: list[tuple[Any, bytes, bytes]],
    ) -> None:
        self._written = [
            (k, targets[k], start, start.again(targets[k]))
            for k, start in enumerate(starts)
            if start is not None
        ]
        self._same: set[int] = set()  # Places that hold plain PyTorch's bytes already.
        self._drawn = drawn
        self._ended = GeneratorStates()  # Kernels of custom operators may draw from any.
        self._ended.add(("a random number generator", generator) for generator, _, _ in drawn)

    def to_start(self) -> None:
        """Puts tensors and generators back to the start of the segment."""
        for _, target, start, _ in self._written:
            start.put_into(target)
        self._ended.restore()
        for generator, before, _ in self._drawn:
            _core.set_generator_state(generator, before)

    def to_end(self) -> None:
        """Puts tensors and generators to what plain PyTorch left."""
        for place, target, _, content in self._written:
            if place not in self._same:
                content.put_into(target)
        self._ended.restore()

    def compare(
        self,
        variant: Variant,
        made: list[tuple[int, torch.Tensor, torch.Tensor]],
    ) -> int:
        """Compares, and returns how many tensors and generators were equal. `made`: (storage on the
        tape, plain PyTorch's result, the program's). Raises AuditError for the first difference."""
        names = dict(variant.homes)
        numbers = variant.segment.externals()
        undefined = variant.segment.undefined()
        for place, target, _, content in self._written:
            if numbers[place] in undefined:
                continue
            if not content.is_in(target):
                raise _differs(variant, numbers[place], names.get(place, "an argument"))
            self._same.add(place)
        for number, plain, ours in made:
            if number in undefined or _same(plain, ours):
                continue
            name = variant.fresh.get(number, "what the step returns or keeps")
            raise _differs(variant, number, name)
        for generator, _, after in self._drawn:
            if _core.generator_state(generator) != after:
                raise _differs(variant, -1, "a random number generator")
        return len(self._written) + len(made) + len(self._drawn)


def _same(a: torch.Tensor, b: torch.Tensor) -> bool:
    flat = [t.detach().contiguous().reshape(-1).view(torch.uint8) for t in (a, b) if t.numel()]
    return not flat or bool(_core.same_bytes(*flat))


def _differs(variant: Variant, number: int, name: str) -> AuditError:
    op = variant.segment.last_writer(number)
    text, where = "", None
    if op >= 0:
        call, _module, file, line = variant.segment.call_text(op)
        text, where = f", which {call.split('(')[0]} wrote last,", f"{file}:{line}"
    return AuditError(
        f"an audit of this step ({variant.label}) found that {name}{text} has other bits than "
        "plain PyTorch computes from the same start",
        where=where,
        todo="this call is now as plain PyTorch computes it, but earlier calls without an audit "
        "may have computed other numbers: go back to a checkpoint, train with plain PyTorch, and "
        "report the model",
    )


def audited(truth: Truth, run: Callable[[], None]) -> None:
    """Runs the program from the start of the segment. If it raises, the segment is undone."""
    truth.to_start()
    try:
        run()
    except BaseException:
        truth.to_start()
        raise
