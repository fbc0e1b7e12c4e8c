"""Python values as arguments of the step: numbers, strings, flags, objects."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from kit import Call, add, case
from torch import Tensor
from worlds import Bench, batches, sgd


def numbered(body: Any, values: list[Any], make: Any = sgd) -> Callable[[], Any]:
    """A case whose calls have a third argument."""

    def build() -> Any:
        b = Bench(make=make, count=len(values))

        def step(x: Tensor, y: Tensor, w: Any) -> Any:
            return body(b, x, y, w)

        calls = [(*batch, w) for batch, w in zip(b.calls, values, strict=True)]
        return b.world(step, calls=calls)

    return build


def own_sgd(b: Bench, x: Tensor, y: Tensor, lr: float) -> Tensor:
    loss = b.loss(x, y)
    grads = torch.autograd.grad(loss, list(b.model.parameters()))
    with torch.no_grad():
        for p, g in zip(b.model.parameters(), grads, strict=True):
            p.add_(g, alpha=-lr)
    return loss


def group_lr(b: Bench, x: Tensor, y: Tensor, lr: float) -> Tensor:
    for group in b.opt.param_groups:
        group["lr"] = lr
    return b.usual(x, y)


def scaled(change: Any) -> Any:
    def body(b: Bench, x: Tensor, y: Tensor, w: Any) -> Tensor:
        return b.update(change(b, b.loss(x, y), x, w))

    return body


class Mode(enum.Enum):
    """Which loss."""

    PLAIN = "plain"
    SQUARED = "squared"


@dataclasses.dataclass
class Weights:
    """A config that is an argument."""

    alpha: float
    power: int = 1


class Pair(NamedTuple):
    """A named tuple that is an argument."""

    low: float
    high: float


WEIGHTS = [0.5, 0.25, 0.25, 0.125, 2.0]
INTS = [1, 2, 3, 2, 5]
NUMBERS: dict[str, tuple[Any, list[Any]]] = {
    "lr_alpha": (own_sgd, [0.1, 0.05, 0.025, 0.1, 0.2]),
    "lr_group": (group_lr, [0.1, 0.05, 0.025, 0.1, 0.2]),
    "times": (scaled(lambda b, loss, x, w: loss * w), WEIGHTS),
    "minus": (scaled(lambda b, loss, x, w: loss * -w + 3 * loss), WEIGHTS),
    "one_minus": (scaled(lambda b, loss, x, w: (1 - w) * loss + w * loss.square()), WEIGHTS),
    "k_times": (scaled(lambda b, loss, x, w: 3 * w * loss), WEIGHTS),
    "reciprocal": (scaled(lambda b, loss, x, w: loss / w + loss * (1 / w)), WEIGHTS),
    "power": (scaled(lambda b, loss, x, w: loss**w), WEIGHTS),
    "compare": (scaled(lambda b, loss, x, w: loss * 2 if w > 0.3 else loss), WEIGHTS),
    "where": (scaled(lambda b, loss, x, w: torch.where(loss > w, loss, loss * w)), WEIGHTS),
    "zero_or_not": (
        scaled(lambda b, loss, x, w: loss + w * loss if w else loss),
        [0.0, 0.5, 0.0, 1.0],
    ),
    "int_is_float": (scaled(lambda b, loss, x, w: loss * w), [1, 1.0, 2, 2.5, True]),
    "infinite": (scaled(lambda b, loss, x, w: loss.clamp(max=w)), [1.0, float("inf"), 0.5, 1.2]),
    "minus_zero": (scaled(lambda b, loss, x, w: loss + w / loss), [0.0, -0.0, 0.0, 0.5]),
    "tiny": (scaled(lambda b, loss, x, w: loss + w), [1e-30, 1e-8, 5e-324, 1e30]),
    "range": (scaled(lambda b, loss, x, w: sum(loss for _ in range(w))), INTS),
    "slice_length": (scaled(lambda b, loss, x, w: loss + b.model(x[:w]).mean()), INTS),
    "size": (scaled(lambda b, loss, x, w: loss + torch.ones(w).sum() * loss), INTS),
    "big_int": (scaled(lambda b, loss, x, w: loss * (w % 1000)), [2**70, 2**53 + 1, 10**25, 7]),
    "flag": (
        scaled(lambda b, loss, x, w: loss.square() if w else loss),
        [True, False, False, True],
    ),
    "none_or_tensor": (
        scaled(lambda b, loss, x, w: loss if w is None else loss * w),
        [None, torch.tensor(0.5), None, torch.tensor(2.0)],
    ),
    "string": (
        scaled(lambda b, loss, x, w: getattr(loss, w)()),
        ["square", "exp", "sqrt", "square"],
    ),
    "unused_index": (scaled(lambda b, loss, x, w: loss), list(range(12))),
    "unused_name": (scaled(lambda b, loss, x, w: loss), [f"batch_{i}.pt" for i in range(12)]),
    "unused_list": (scaled(lambda b, loss, x, w: loss), [[f"{i}.png"] * 6 for i in range(12)]),
    "many_values": (scaled(lambda b, loss, x, w: loss * w), [i / 7 for i in range(14)]),
    "list_of_floats": (
        scaled(lambda b, loss, x, w: loss * torch.tensor(w).sum()),
        [[0.5, 1.0], [0.25], [1.0, 2.0, 3.0], [0.5, 1.0]],
    ),
    "dict_of_floats": (
        scaled(lambda b, loss, x, w: w["ce"] * loss + w["l2"] * x.square().mean() * loss),
        [{"ce": 1.0, "l2": i / 10} for i in range(5)],
    ),
    "tuple_of_ints": (
        scaled(lambda b, loss, x, w: loss + b.model(x).reshape(w).amax(0).sum()),
        [(6, 4), (4, 6), (2, 12), (6, 4)],
    ),
    "dataclass": (
        scaled(lambda b, loss, x, w: loss.pow(w.power) * w.alpha),
        [Weights(0.5), Weights(0.25, 2), Weights(1.0), Weights(0.5, 3)],
    ),
    "named_tuple": (
        scaled(lambda b, loss, x, w: loss.clamp(w.low, w.high)),
        [Pair(0.1, 5.0), Pair(0.2, 1.0), Pair(0.1, 1.2), Pair(2.0, 3.0)],
    ),
    "enum": (
        scaled(lambda b, loss, x, w: loss if w is Mode.PLAIN else loss.square()),
        [Mode.PLAIN, Mode.SQUARED, Mode.PLAIN, Mode.SQUARED],
    ),
    "numpy_scalar": (
        scaled(lambda b, loss, x, w: loss * w.item()),
        [np.float32(i / 3) for i in range(1, 5)],
    ),
    "numpy_float64": (
        scaled(lambda b, loss, x, w: loss * w),
        [np.float64(i / 3) for i in range(1, 5)],
    ),
    "numpy_array": (
        scaled(lambda b, loss, x, w: loss * torch.from_numpy(w).sum()),
        [np.full(3, i / 3, np.float32) for i in range(1, 5)],
    ),
    "complex": (scaled(lambda b, loss, x, w: (loss * w).abs()), [1 + 1j, 2j, 0.5 - 1j, 1 + 1j]),
    "function": (
        scaled(lambda b, loss, x, w: loss + w(b.model(x)).mean()),
        [torch.relu, torch.tanh, F.gelu, torch.relu],
    ),
    "dtype": (
        scaled(lambda b, loss, x, w: loss + b.model(x).to(w).sum().float()),
        [torch.float64, torch.bfloat16, torch.float32, torch.float64],
    ),
    "device": (
        scaled(lambda b, loss, x, w: loss + torch.ones(2, device=w).sum()),
        ["cpu", torch.device("cpu")] * 2,
    ),
    "slice_object": (
        scaled(lambda b, loss, x, w: loss + b.model(x)[w].sum()),
        [slice(0, 2), slice(1, 5), slice(None, None, 2), slice(0, 2)],
    ),
    "lr_of_new_optimizer": (
        lambda b, x, y, w: fresh_optimizer(b, x, y, w),
        [0.1, 0.2, 0.05, 0.1],
    ),
}


def fresh_optimizer(b: Bench, x: Tensor, y: Tensor, lr: float) -> Tensor:
    """An optimizer that is made inside the step."""
    opt = torch.optim.SGD(b.model.parameters(), lr=lr)
    loss = b.loss(x, y)
    loss.backward()
    opt.step()
    opt.zero_grad()
    return loss


for label, (body, values) in NUMBERS.items():
    add("number", f"number_{label}", numbered(body, values))


@case("number")
def number_that_comes_back() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor, w: float) -> tuple[Tensor, float, float, str]:
        return b.update(b.loss(x, y) * w), w, w * 2, f"w={w}"

    return b.world(step, calls=[(*batch, w) for batch, w in zip(b.calls, WEIGHTS, strict=True)])


@case("number")
def number_used_as_lr_and_weight() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor, w: float, n: int) -> Tensor:
        b.opt.param_groups[0]["lr"] = w / n
        return b.update(b.loss(x, y) * w + n)

    more = zip(b.calls, WEIGHTS, INTS, strict=True)
    return b.world(step, calls=[(*batch, w, n) for batch, w, n in more])


@case("number")
def number_with_a_default() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor, w: float = 0.5, *, mode: str = "mean") -> Tensor:
        return b.update(F.cross_entropy(b.model(x), y, reduction=mode) * w)

    one, two, three, four, five = b.calls
    calls = [one, Call(*two, mode="sum"), (*three, 0.25), Call(*four, w=2.0), five]
    return b.world(step, calls=calls)


@case("number")
def number_in_a_dropout() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor, p: float) -> Tensor:
        return b.update(F.cross_entropy(b.model(F.dropout(x, p)), y))

    calls = [(*batch, p) for batch, p in zip(b.calls, [0.1, 0.5, 0.0, 0.9, 1.0], strict=True)]
    return b.world(step, calls=calls)


@case("number")
def number_per_epoch_and_batch() -> Any:
    b = Bench(make=sgd)

    def step(epoch: int, i: int, x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        if epoch > 0 and i == 0:
            b.log.append((epoch, i, loss.item()))
            loss = loss * 0.5
        return b.update(loss)

    data = batches(6)
    return b.world(step, calls=[(k // 2, k % 2, *batch) for k, batch in enumerate(data)])
