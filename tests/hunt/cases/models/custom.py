"""Custom operators whose kernels do more than compute from their arguments."""

from __future__ import annotations

import contextlib
import itertools
import os
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from kit import case
from torch import Tensor, nn
from worlds import Bench, sgd

_names = itertools.count()
_alive: list[torch.library.Library] = []  # For as long as the process lives.


def operator(compute: Callable[[Tensor], Any], schema: str = "(Tensor x) -> Tensor") -> Any:
    """Registered with a fake kernel and a backward."""
    name = f"hunt_custom::op_{next(_names)}"
    op = torch.library.custom_op(name, compute, mutates_args=(), schema=schema)
    op.register_fake(lambda x: torch.empty_like(x))
    op.register_autograd(lambda _ctx, grad: grad * 2)
    return op


def scaled(b: Bench, compute: Callable[[Tensor], Tensor], *more: Any, **options: Any) -> Any:
    """A training through an operator that computes so."""
    op = operator(compute)

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(op(b.model(x)), y))

    return b.world(step, *more, **options)


def _in_place(t: Tensor) -> None:
    t.mul_(1.1)


def _as_data(t: Tensor) -> None:
    t.data.mul_(1.1)


def _as_array(t: Tensor) -> None:
    t.numpy()[:] *= 1.1


WRITES = {"in_place": _in_place, "data": _as_data, "numpy": _as_array}


def _writing(name: str) -> Callable[[], Any]:
    def custom() -> Any:
        b, kept = Bench(make=sgd), torch.ones(3)

        def compute(x: Tensor) -> Tensor:
            WRITES[name](kept)
            return x * kept[0]

        return scaled(b, compute, kept)

    custom.__name__ = f"custom_writes_{name}"
    return custom


for _name in WRITES:
    case("custom")(_writing(_name))


@case("custom")
def custom_with_a_layer_that_keeps_statistics() -> Any:
    b, norm = Bench(make=sgd), nn.BatchNorm1d(4)

    def compute(x: Tensor) -> Tensor:
        with torch.no_grad():
            return norm(x) + norm.running_mean

    return scaled(b, compute, norm)


@case("custom")
def custom_with_a_buffer_from_the_third_call_on() -> Any:
    b, kept = Bench(make=sgd), torch.ones(3)

    def compute(x: Tensor) -> Tensor:
        kept.mul_(1.1)
        return x * kept[0]

    op = operator(compute)

    def step(x: Tensor, y: Tensor) -> Tensor:
        made = b.model(x)
        b.log.append(len(b.log))
        return b.update(F.cross_entropy(op(made) if len(b.log) > 2 else made, y))

    return b.world(step, kept)


def _environment() -> float:
    return float(os.environ.get("FITSTEP_HUNT_SCALE", "1"))


def _read_later(name: str) -> Callable[[], Any]:
    """Python's state, changed behind the operator from the fourth call on."""

    def custom() -> Any:
        b, scale, net = Bench(make=sgd), [1.0], nn.Dropout(0.0)
        os.environ.pop("FITSTEP_HUNT_SCALE", None)
        reads: dict[str, Callable[[], float]] = {
            "list": lambda: scale[0],
            "length": lambda: float(len(scale)),
            "training": lambda: 1.0 if net.training else 3.0,
            "environment": _environment,
            "lr": lambda: 10 * b.opt.param_groups[0]["lr"],
        }

        def change() -> None:
            scale[0] += 1
            scale.append(0.0)
            net.train(not net.training)
            os.environ["FITSTEP_HUNT_SCALE"] = str(scale[0])
            b.opt.param_groups[0]["lr"] *= 0.5

        op = operator(lambda x: x * reads[name]())

        def step(x: Tensor, y: Tensor) -> Tensor:
            made = op(b.model(x))
            b.log.append(len(b.log))
            if len(b.log) > 3:
                change()
            return b.update(F.cross_entropy(made, y))

        return b.world(step, scale)

    custom.__name__ = f"custom_reads_{name}_before_it_changes"
    return custom


for _name in ("list", "length", "training", "environment", "lr"):
    case("custom")(_read_later(_name))


def _under(name: str, begin: int) -> Callable[[], Any]:
    contexts: dict[str, Callable[[], Any]] = {
        "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
        "errstate": lambda: np.errstate(divide="ignore"),
    }

    def custom() -> Any:
        b, weight = Bench(make=sgd), torch.linspace(-1, 1, 16).reshape(4, 4)

        def compute(x: Tensor) -> Tensor:
            made = (x @ weight).float() + x
            return made * (2 if np.geterr()["divide"] == "ignore" else 1)

        op = operator(compute)

        def step(x: Tensor, y: Tensor) -> Tensor:
            made = b.model(x)
            b.log.append(len(b.log))
            with contexts[name]() if len(b.log) > begin else contextlib.nullcontext():
                made = op(made)
            return b.update(F.cross_entropy(made, y))

        return b.world(step)

    custom.__name__ = f"custom_under_{name}_from_call_{begin}"
    return custom


for _name, _begin in itertools.product(("autocast", "errstate"), (0, 3)):
    case("custom")(_under(_name, _begin))


ITERATORS: dict[str, Callable[[], Any]] = {
    "count": lambda: itertools.count(1),
    "cycle": lambda: itertools.cycle([1, 2, 5]),
    "generator": lambda: (n for n in range(1, 10_000)),
}


def _iterating(name: str) -> Callable[[], Any]:
    def custom() -> Any:
        b, numbers = Bench(make=sgd), ITERATORS[name]()
        return scaled(b, lambda x: x * next(numbers))

    custom.__name__ = f"custom_takes_from_a_{name}"
    return custom


for _name in ITERATORS:
    case("custom")(_iterating(_name))


@case("custom")
def custom_reads_an_attribute_of_its_argument() -> Any:
    b = Bench(make=sgd)

    def step(x: Tensor, y: Tensor) -> Tensor:
        made = b.model(x)
        made.scale = 3.0
        with torch.no_grad():
            scale = op(made).mean()
        return b.update(F.cross_entropy(b.model(x), y) * scale)

    op = operator(lambda x: x.abs() * getattr(x, "scale", 1.0))
    return b.world(step)


@case("custom")
def custom_draws_from_everywhere() -> Any:
    def compute(x: Tensor) -> Tensor:
        return x * (1 + torch.rand(()) + random.random() + np.random.rand())  # noqa: NPY002

    return scaled(Bench(make=sgd), compute)


@case("custom")
def custom_asks_for_numbers() -> Any:
    def compute(x: Tensor) -> Tensor:
        return x * (float(x[0, 0]) + int(x.abs().max()) + x.sum().item() + len(x.tolist()))

    return scaled(Bench(make=sgd), compute)


@case("custom")
def custom_keeps_arguments_and_results() -> Any:
    b, kept = Bench(make=sgd), []

    def compute(x: Tensor) -> Tensor:
        made = x * (1 + (kept[-1].mean().abs() if kept else 0))
        kept.append(x)
        kept.append(made)
        return made

    return scaled(b, compute, kept)


@case("custom")
def custom_in_the_backward_only() -> Any:
    b, counts = Bench(make=sgd), [0]

    def compute(grad: Tensor) -> Tensor:
        counts[0] += 1
        return grad * counts[0]

    op = operator(compute)

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(_ctx: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(_ctx: Any, grad: Tensor) -> Tensor:
            return op(grad)

    def step(x: Tensor, y: Tensor) -> Tensor:
        return b.update(F.cross_entropy(Scaled.apply(b.model(x)), y))

    return b.world(step, counts)


@case("custom")
def custom_prints() -> Any:
    b = Bench(make=sgd)

    def compute(x: Tensor) -> Tensor:
        print("called", file=b.text)
        return x * 2

    return scaled(b, compute)
