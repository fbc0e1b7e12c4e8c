"""Numbers that trainers of TRL log while they compute the loss, read when the step has ended.

SFTTrainer and DPOTrainer ask for values before backward(), for example
`(gather(correct) / gather(total)).item() if gather(total) > 0 else 0.0`. All activations would be
kept for that. So in a compiled step `gather()` gives TRL's own code a `Later`, and what is computed
from it is a `Later`, too. After the step each becomes a number. A subclass with a compute_loss() or
training_step() of its own gets numbers at once, because its loss may depend on them.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

_GATHERS = ("gather", "gather_for_metrics")
_TRAINERS = ("trl.trainer.sft_trainer", "trl.trainer.dpo_trainer")


class Later:
    """What a tensor's value, or a number computed from it, will be.

    In TRL's code `later > 0` is taken for true, because Python has to know now. `value()` looks
    again: it is 0.0 if something that it was divided by is not positive. TRL logs 0.0 there, too.
    """

    def __init__(self, compute: Callable[[], Any], over: tuple[Later, ...] = ()) -> None:
        self._compute = compute
        self._over = over

    def value(self) -> Any:
        if any(not bool(one.value() > 0) for one in self._over):
            return 0.0
        return self._compute()

    def sum(self) -> Later:
        return Later(lambda: self._compute().sum(), self._over)

    def mean(self) -> Later:
        return Later(lambda: self._compute().mean(), self._over)

    def item(self) -> Later:
        return Later(lambda: self._compute().item(), self._over)

    def __truediv__(self, other: Later) -> Later:
        over = (*self._over, *other._over, other)
        return Later(lambda: self._compute() / other._compute(), over)

    def __floordiv__(self, other: int) -> Later:
        return Later(lambda: self._compute() // other, self._over)

    def __add__(self, other: Any) -> Later:
        more = other if isinstance(other, Later) else Later(lambda: other)
        return Later(lambda: self.value() + more.value())

    __radd__ = __add__

    def __gt__(self, least: float) -> bool:
        return (least == 0 and _is_of_trl(sys._getframe(1))) or bool(self.value() > least)

    def __bool__(self) -> bool:
        return bool(self.value())

    def __eq__(self, other: object) -> bool:
        return bool(self.value() == other)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.value(), name)  # Asks now: right, but the step keeps its activations.


@contextlib.contextmanager
def later_metrics(trainer: Any) -> Iterator[None]:
    """In its body the trainer logs `Later`s; behind it they are numbers. Does nothing for trainers
    that ask for no values, nor where code of others may read what TRL has logged."""
    makers = trainer.compute_loss.__module__, type(trainer).training_step.__module__
    if makers[0] not in _TRAINERS or not makers[1].startswith(("trl.", "transformers.")):
        yield
        return
    accelerator = trainer.accelerator
    for name in _GATHERS:
        setattr(accelerator, name, _gather_later(getattr(accelerator, name)))
    try:
        yield
    finally:
        for name in _GATHERS:
            delattr(accelerator, name)
        for name, held in vars(trainer).items():
            if isinstance(held, Later):
                setattr(trainer, name, held.value())
        for metrics in trainer._metrics.values():
            for logged in metrics.values():
                logged[:] = [one.value() if isinstance(one, Later) else one for one in logged]


def _gather_later(gather: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def later(tensor: Any) -> Any:
        gathered = gather(tensor)
        return Later(lambda: gathered) if _is_of_trl(sys._getframe(1)) else gathered

    return later


def _is_of_trl(frame: FrameType) -> bool:
    return frame.f_globals.get("__name__") in _TRAINERS
