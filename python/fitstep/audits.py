"""Audits: calls that plain PyTorch makes itself, and every program once more from the same start.

function   its operators run, as with plain PyTorch ─────────> what it leaves: the truth
segment    what it wrote is put back ─> the program runs ────> the same bytes, or AuditError

The function is the user's own, on its own objects, and it runs once. Which calls are audited: the
first three, as faults that come from changed numbers show from the second on, the 30th, the 300th
and so on, and the next one after a call that made a new program.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from . import _core
from .errors import AuditError
from .settings import check_choice
from .state.rng import GeneratorStates

if TYPE_CHECKING:
    from .session import Session
    from .variants import Variant

_FIRST = 3
_KINDS = ("auto", "all", "off")


def check_audits(wanted: str | None) -> str:
    """What is meant. Raises SettingError for what cannot be."""
    found = os.environ.get("FITSTEP_AUDITS", "auto") if wanted is None else wanted
    check_choice("audits", found, _KINDS)
    return found


@dataclass
class Audits:
    """When a step is audited, and what that has shown."""

    wanted: str
    calls: int = 0
    audited_calls: int = 0
    compared_tensors: int = 0
    seconds: float = 0.0  # Of audited calls, without what their programs took.
    why_not: str = ""  # Why a call that was due was not audited.
    has_new: bool = False  # A program that no audit has run.

    def is_due(self, session: Session, plain_peak_bytes: int) -> bool:
        """For the call that begins now."""
        self.calls += 1
        if self.wanted == "off":
            return False
        if self.wanted != "all" and not self.has_new and not _is_early_or_round(self.calls):
            return False
        self.has_new = False  # Asked once: memory that is not free now is not looked at each call.
        self.why_not = _why_too_large(session, plain_peak_bytes)
        return not self.why_not


def _is_early_or_round(call: int) -> bool:
    return call < _FIRST or str(call).rstrip("0") == str(_FIRST)


def _why_too_large(session: Session, plain_peak_bytes: int) -> str:
    """Plain PyTorch's own memory has to fit beside the arena, and two copies of what is written."""
    needed = plain_peak_bytes + 2 * session.bottom_bytes
    device = session.device
    free = _core.free_memory_bytes() if device.is_cpu() else device.memory_bytes()
    if free is None or needed < free:
        return ""
    size = _core.format_bytes
    return f"plain PyTorch needs {size(needed)} beside the arena, and {size(free)} are free"


class Truth:
    """What one segment of an audited call left, while its program runs from the same start.

    REQUIRES: nobody follows operators meanwhile.
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
        self._same: set[int] = set()  # Places of what the program has left as plain PyTorch did.
        self._drawn = drawn
        self._ended = GeneratorStates()  # Kernels of custom operators may draw from any.
        self._ended.add(("a random number generator", generator) for generator, _, _ in drawn)

    def to_start(self) -> None:
        """All is as before the segment."""
        for _, target, start, _ in self._written:
            start.put_into(target)
        self._ended.restore()
        for generator, before, _ in self._drawn:
            _core.set_generator_state(generator, before)

    def to_end(self) -> None:
        """All is as plain PyTorch has left it."""
        for place, target, _, content in self._written:
            if place not in self._same:
                content.put_into(target)
        self._ended.restore()

    def compare(
        self,
        variant: Variant,
        made: list[tuple[int, torch.Tensor, torch.Tensor]],
    ) -> int:
        """Counts what is equal. `made`: storages on the tape, as plain PyTorch and as the program
        left them. Raises AuditError with the first that is not."""
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
        text, where = f", which {call.split('(')[0]} has written last,", f"{file}:{line}"
    return AuditError(
        f"an audit of this step ({variant.label}) found that {name}{text} is not what plain "
        "PyTorch makes of the same start",
        where=where,
        todo="all is now as plain PyTorch has left it; please report the model, and until then "
        "train with plain PyTorch",
    )


def audited(truth: Truth, run: Callable[[], None]) -> None:
    """Runs the program from the start of the segment. If that fails, nothing has happened."""
    truth.to_start()
    try:
        run()
    except BaseException:
        truth.to_start()
        raise
