"""Parts of an array that numpy has filled since a step met them, read and written by operators."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from cases.memory.lent import rows
from kit import add, case
from torch import Tensor
from worlds import FEATURES, Bench, sgd


def rows_moved(act: Callable[[Tensor], Any], anew: bool, late: bool) -> Callable[[], Any]:
    """An operator writes some rows and reads others, which numpy has filled since they were met."""

    def make() -> Any:
        b, frames = Bench(make=sgd), rows(count=6)
        tensor = torch.from_numpy(frames)

        def step(x: Tensor, y: Tensor) -> Tensor:
            t = torch.from_numpy(frames) if anew else tensor
            with torch.no_grad():
                seen = b.model(t).mean()
            if not late or len(b.log) > 2:
                with torch.no_grad():
                    seen = seen + b.model(t[:1]).mean()
                frames[2] = len(b.log)
            act(t)
            b.log.append(float(frames[0].sum()))
            return b.update(b.loss(t, y) * (1 + 0.1 * torch.tanh(seen)))

        return b.world(step, frames)

    return make


ROWS_MOVED: dict[str, Callable[[Tensor], Any]] = {
    "copy_": lambda t: t[0].copy_(t[2]),
    "add_": lambda t: t[0].add_(t[2], alpha=0.01),
    "addcmul_": lambda t: t[0].addcmul_(t[2], t[1], value=0.01),
    "foreach_copy_": lambda t: torch._foreach_copy_([t[0], t[1]], [t[2], t[3]]),
    "foreach_zero_": lambda t: torch._foreach_zero_([t[0], t[2]]),
    "out": lambda t: torch.mul(t[2], t[3], out=t[0]),
    "clamp": lambda t: t[0].clamp_(min=t[2], max=t[2] + 1),
    "lerp": lambda t: t[:2].lerp_(t[2:4], 0.5),
}
for _name, _act in ROWS_MOVED.items():
    for _anew in (False, True):
        for _late in (False, True):
            name = f"rows moved by {_name}{' of a new tensor' * _anew}{' late' * _late}"
            add("lent", name, rows_moved(_act, _anew, _late))


@case("lent")
def refilled_between_an_error_and_the_next_operator() -> Any:
    b, a = Bench(make=sgd), np.ones(FEATURES, np.float32)
    t = torch.from_numpy(a)

    def step(x: Tensor, y: Tensor) -> Tensor:
        total = (t * 1).sum()
        for wrong in (lambda: t + torch.ones(3), lambda: torch.mm(t, t)):
            a[0] += 1
            total = total + (t * 2).sum()
            try:
                wrong()
            except RuntimeError:
                b.log.append("wrong")
            a[1] += 1
            total = total + (t * 3).sum()
        return b.update(b.loss(x * t, y) + total * b.model[0].bias.sum())

    return b.world(step, a)
