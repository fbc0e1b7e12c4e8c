"""Memory that DLPack has given to numpy: before fitstep was imported, before compile, behind it."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from kit import Do, add, case
from torch import Tensor, nn
from worlds import FEATURES, Bench, adam, sgd


def early(tensor: Tensor) -> Any:
    """An array as numpy makes it where fitstep is not imported yet."""
    watched = torch.Tensor.__dlpack__
    torch.Tensor.__dlpack__ = watched.__wrapped__
    try:
        return np.from_dlpack(tensor.detach())
    finally:
        torch.Tensor.__dlpack__ = watched


def late(tensor: Tensor) -> Any:
    """An array over the memory of a tensor."""
    return np.from_dlpack(tensor.detach())


def closed_over(b: Bench) -> Tensor:
    return torch.linspace(-1, 1, FEATURES)


def parameter(b: Bench) -> Tensor:
    return b.model[0].bias


def buffer(b: Bench) -> Tensor:
    return b.model[1].running_mean


def read(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    loss = b.loss(x, y) + t.sum() * b.model[0].bias.sum()
    b.log.append(float(a.sum()))
    return loss


def written_between(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    first = (t * 0.5).sum() * b.model[0].bias.sum()
    a *= 0.9
    return b.loss(x, y) + first + (t * t).sum() * b.model[0].weight.sum()


def written_behind(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    loss = b.loss(x, y) + (t * 0.5).sum() * b.model[0].bias.sum()
    a += 0.125
    return loss


def written_by_both(b: Bench, x: Tensor, y: Tensor, a: Any, t: Tensor) -> Tensor:
    with torch.no_grad():
        t.mul_(0.75)
    a += 0.125
    with torch.no_grad():
        t.add_(0.25)
    return b.loss(x, y) + (t.detach() * 0.5).sum() * b.model[0].bias.sum() + float(a[0])


WAYS = (read, written_between, written_behind, written_by_both)
OF = (closed_over, parameter, buffer)


def made(way: Callable[..., Tensor], of: Callable[..., Tensor], show: Callable[..., Any]) -> Any:
    def make() -> Any:
        model = nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.BatchNorm1d(FEATURES))
        b = Bench(model, make=adam if of is parameter else sgd)
        tensor = of(b)
        array = show(tensor)

        def step(x: Tensor, y: Tensor) -> Tensor:
            return b.update(way(b, x, y, array, tensor))

        return b.world(step, tensor, array)

    return make


for _way in WAYS:
    for _of in OF:
        for _show in (early, late):
            name = f"{_way.__name__} {_of.__name__} {_show.__name__}"
            add("dlpack", name, made(_way, _of, _show))


HOLDERS: dict[str, Callable[[Any], Any]] = {
    "dict": lambda a: {"w": a},
    "tuple": lambda a: (a,),
    "instance": lambda a: types.SimpleNamespace(w=a),
    "tuple in a list": lambda a: [(a, 1)],
    "partial": lambda a: functools.partial(print, a),
    "view": lambda a: [a.reshape(2, -1)[:1]],
}


def held(hold: Callable[[Any], Any], of: Callable[..., Tensor]) -> Callable[[], Any]:
    """An array that only an object has of which the garbage collector does not know."""

    def make() -> Any:
        b = Bench(nn.Sequential(nn.Linear(FEATURES, FEATURES), nn.BatchNorm1d(FEATURES)), make=sgd)
        tensor = of(b)
        holder = hold(early(tensor))

        def step(x: Tensor, y: Tensor) -> Tensor:
            first = (tensor * 0.5).sum() * b.model[0].weight.sum()
            found: Any = holder
            while not isinstance(found, np.ndarray):
                found = getattr(found, "w", getattr(found, "args", found))
                if isinstance(found, dict):
                    found = found["w"]
                elif isinstance(found, list | tuple):
                    found = found[0]
            found *= 0.9
            return b.update(b.loss(x, y) + first + (tensor * tensor).sum() * b.model[0].bias.sum())

        return b.world(step, tensor)

    return make


for _name, _hold in HOLDERS.items():
    for _of in (closed_over, parameter):
        add("dlpack", f"array in a {_name} of {_of.__name__}", held(_hold, _of))


@case("dlpack")
def dlpack_of_an_argument() -> Any:
    return of_an_argument(late)


@case("dlpack")
def dlpack_of_an_argument_before_the_import() -> Any:
    return of_an_argument(early)


def of_an_argument(show: Callable[[Tensor], Any]) -> Any:
    b, x = Bench(make=sgd), torch.zeros(6, FEATURES)
    a = show(x)

    def step(x: Tensor, y: Tensor) -> Tensor:
        first = (x * 0.5).sum()
        a[:] = a + 0.25
        return b.update(b.loss(x, y) * first.exp().clamp(max=2.0))

    return b.world(step, x, calls=[(x, y) for _, y in b.calls])


@case("dlpack")
def dlpack_behind_compile() -> Any:
    b, seen, t = Bench(make=sgd), [], torch.linspace(-1, 1, FEATURES)

    def step(x: Tensor, y: Tensor) -> Tensor:
        first = (t * 0.5).sum() * b.model[0].bias.sum()
        for array in seen:
            array *= 0.9
        return b.update(b.loss(x, y) + first + (t * t).sum() * b.model[0].weight.sum())

    calls = [*b.calls[:2], Do(lambda: seen.append(late(t))), *b.calls[2:]]
    return b.world(step, t, calls=calls)


def noisy(show: Callable[[Tensor], Any], late: bool) -> Callable[[], Any]:
    """Numpy changes a weight, the step looks, and numpy puts it back; `late`: not in call 0."""

    def make() -> Any:
        b = Bench(make=sgd)
        w = show(b.model[0].weight)

        def step(x: Tensor, y: Tensor) -> Tensor:
            with torch.no_grad():
                before = b.model(x).mean()
                old = w.copy()
                w[...] += 0.0 if late and len(b.log) % 4 != 3 else 0.5
                noisy = b.model(x).mean()
                w[...] = old
            b.log.append(len(b.log))
            return b.update(b.loss(x, y) * (1 + noisy - before))

        return b.world(step, w)

    return make


for _show in (lambda w: w.detach().numpy(), late):
    for _late in (False, True):
        way = "dlpack" if _show is late else "numpy"
        add("dlpack", f"weights changed by {way} and back{' late' * _late}", noisy(_show, _late))


@case("dlpack")
def twin_over_a_weight_written_before_backward() -> Any:
    b, seen = Bench(make=sgd), []

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.loss(x, y)
        with torch.no_grad():
            for twin in seen:
                twin.mul_(0.5)
        return b.update(loss)

    def take() -> None:
        seen.append(torch.from_dlpack(b.model[2].weight.detach()))

    return b.world(step, calls=[*b.calls[:2], Do(take), *b.calls[2:]])
