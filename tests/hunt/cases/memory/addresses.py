"""Addresses of tensors in Python, and steps that ask for a value once for each parameter."""

from __future__ import annotations

import array
import ctypes
import decimal
import functools
import numbers
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from kit import add, case
from torch import Tensor, nn
from worlds import CLASSES, FEATURES, Bench


def _first(b: Bench) -> Tensor:
    return b.model[0].weight


def _pointer(t: Tensor) -> Any:
    return ctypes.cast(t.data_ptr(), ctypes.POINTER(ctypes.c_float))


class Named(NamedTuple):
    """An address, and what it is of."""

    at: int
    name: str


class _Struct(ctypes.Structure):
    _fields_ = (("at", ctypes.c_void_p),)


def _cached(b: Bench) -> Callable[[int], int]:
    calls: list[int] = []

    @functools.cache
    def place(at: int) -> int:
        calls.append(at)
        return len(calls)

    place(_first(b).data_ptr())
    return place


# Kept before compile, and whether it is that of a parameter.
KEPT: dict[str, tuple[Callable[[Bench], Any], Callable[[Any, Tensor], bool]]] = {
    "int": (lambda b: _first(b).data_ptr(), lambda kept, p: p.data_ptr() == kept),
    "cache_line": (
        lambda b: _first(b).data_ptr() // 64,
        lambda kept, p: p.data_ptr() // 64 == kept,
    ),
    "array_of_float": (
        lambda b: array.array("d", [_first(b).data_ptr()]),
        lambda kept, p: p.data_ptr() == kept[0],
    ),
    "set": (lambda b: {_first(b).data_ptr()}, lambda kept, p: p.data_ptr() in kept),
    "keys": (
        lambda b: {p.data_ptr(): n for n, p in b.model.named_parameters()},
        lambda kept, p: kept.get(p.data_ptr()) == "0.weight",
    ),
    "of_storage": (
        lambda b: _first(b).untyped_storage().data_ptr(),
        lambda kept, p: p.untyped_storage().data_ptr() == kept,
    ),
    "within": (
        lambda b: _first(b)[1:].data_ptr(),
        lambda kept, p: p.data_ptr() <= kept < p.data_ptr() + p.nbytes,
    ),
    "tuple": (lambda b: (_first(b).data_ptr(), 3), lambda kept, p: p.data_ptr() == kept[0]),
    "array": (
        lambda b: np.array([p.data_ptr() for p in b.model.parameters()]),
        lambda kept, p: p.data_ptr() == int(kept[0]),
    ),
    "table": (
        lambda b: torch.tensor([p.data_ptr() for p in b.model.parameters()]),
        lambda kept, p: p.data_ptr() == kept[0].item(),
    ),
    "named": (
        lambda b: Named(_first(b).data_ptr(), "first"),
        lambda kept, p: p.data_ptr() == kept.at,
    ),
    "text": (lambda b: {str(_first(b).data_ptr())}, lambda kept, p: str(p.data_ptr()) in kept),
    "hex": (lambda b: hex(_first(b).data_ptr()), lambda kept, p: hex(p.data_ptr()) == kept),
    "cache": (_cached, lambda kept, p: kept(p.data_ptr()) == 1),
    "parameter": (
        lambda b: torch.nn.Parameter(torch.tensor([_first(b).data_ptr()]), requires_grad=False),
        lambda kept, p: p.data_ptr() == kept.item(),
    ),
    "objects": (
        lambda b: np.array([_first(b).data_ptr(), None], dtype=object),
        lambda kept, p: p.data_ptr() == kept[0],
    ),
    "typed": (
        lambda b: array.array("Q", [_first(b).data_ptr()]),
        lambda kept, p: p.data_ptr() == kept[0],
    ),
    "struct": (
        lambda b: _Struct(_first(b).data_ptr()),
        lambda kept, p: p.data_ptr() == kept.at,
    ),
    "void": (
        lambda b: ctypes.c_void_p(_first(b).data_ptr()),
        lambda kept, p: p.data_ptr() == kept.value,
    ),
    "ctypes": (
        lambda b: _pointer(_first(b)),
        lambda kept, p: p.data_ptr() == ctypes.addressof(kept.contents),
    ),
}


def _told_apart(name: str) -> Callable[[], Any]:
    def address() -> Any:
        keep, is_it = KEPT[name]
        b = Bench()
        kept = keep(b)

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = F.cross_entropy(b.model(x), y)
            loss.backward()
            with torch.no_grad():
                for p in b.model.parameters():
                    p.sub_((0.5 if is_it(kept, p) else 0.01) * p.grad)
                    p.grad = None
            return loss.detach()

        return b.world(step)

    address.__name__ = f"address_{name}"
    return address


for _name in KEPT:
    case("address")(_told_apart(_name))


@case("address")
def address_of_parameters_in_the_step() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        seen = set()
        loss = F.cross_entropy(b.model(x), y)
        for p in [*b.model.parameters(), *b.model.parameters()]:
            if p.data_ptr() not in seen:
                loss = loss + 0.01 * p.square().sum()
            seen.add(p.data_ptr())
        return b.update(loss)

    return b.world(step)


@case("address")
def address_of_views_and_copies() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        with torch.no_grad():
            for p in b.model.parameters():
                flat = p.t().reshape(-1)
                flat.mul_(0.9)
                if flat.data_ptr() != p.data_ptr():
                    p.copy_(flat.view(p.t().shape).t())
        return loss

    return b.world(step)


@case("address")
def address_kept_from_call_to_call() -> Any:
    b, kept = Bench(), {}

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(b.model(x), y)
        at = kept.setdefault("at", b.model[0].weight.data_ptr())
        if b.model[0].weight.data_ptr() == at:
            loss = loss * 2
        return b.update(loss)

    return b.world(step)


def _clip(x: Tensor, y: Tensor, b: Bench, least: float) -> Tensor:
    loss = F.cross_entropy(b.model(x), y)
    loss.backward()
    with torch.no_grad():
        for p in b.model.parameters():
            norm = p.grad.norm().item()
            b.log.append(norm)
            if norm > least:
                p.grad.mul_(least / norm)
            else:
                p.grad.add_(1e-3)
            p.sub_(0.1 * p.grad)
            p.grad = None
    return loss.detach()


@case("address")
def address_of_alike_parameters_on_two_branches() -> Any:
    b = Bench()
    return b.world(lambda x, y: _clip(x, y, b, 0.3))


@case("address")
def address_of_gradients_that_are_clipped_one_by_one() -> Any:
    alike = [nn.Linear(FEATURES, FEATURES) for _ in range(3)]
    b = Bench(nn.Sequential(*alike, nn.Linear(FEATURES, CLASSES)))

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = F.cross_entropy(b.model(x), y)
        b.opt.zero_grad()
        loss.backward()
        seen = set()
        for p in b.model.parameters():
            if p.grad.data_ptr() in seen:
                continue
            seen.add(p.grad.data_ptr())
            norm = p.grad.norm().item()
            if norm > 0.1:
                p.grad.mul_(0.1 / norm)
        b.opt.step()
        return loss

    return b.world(step)


class Metres(np.ndarray):
    """An array with units, which no number can be compared with."""

    def __ge__(self, other: Any) -> Any:
        raise ValueError("units differ")


class Stern(torch.Tensor):
    """A tensor that refuses some functions."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.__name__ in ("clone", "detach"):
            raise ValueError(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


class Length(numbers.Real):
    """A number that has no absolute value."""

    def __abs__(self) -> Any:
        raise TypeError("no absolute value")

    __float__ = __trunc__ = __floor__ = __ceil__ = __round__ = __neg__ = __pos__ = __abs__
    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return self is other

    __lt__ = __le__ = __add__ = __radd__ = __mul__ = __rmul__ = __truediv__ = __eq__
    __rtruediv__ = __pow__ = __rpow__ = __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __eq__


ODD: dict[str, Callable[[], Any]] = {
    "decimal_nan": lambda: decimal.Decimal("NaN"),
    "large_decimal": lambda: decimal.Decimal("1e999999"),
    "array_with_units": lambda: np.ones(3).view(Metres),
    "half_number": lambda: np.float16(70000),
    "number_of_its_own": Length,
    "nested_tensor": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "stern_tensor": lambda: torch.arange(4).as_subclass(Stern),
}


def _odd(make: Callable[[], Any]) -> Callable[[], Any]:
    """A step that holds what is no address, and looks like none."""

    def build() -> Any:
        b = Bench()
        held = {"v": make()}
        return b.world(lambda x, y: b.usual(x, y) * len(held))

    return build


for name, make in ODD.items():
    add("address", f"no_address_{name}", _odd(make))


@case("address")
def address_of_alike_buffers_that_go_round() -> Any:
    b = Bench()
    ring = [torch.full((4,), float(i)) for i in range(4)]

    def step(x: Tensor, y: Tensor) -> Tensor:
        ring.append(ring.pop(0))
        loss = F.cross_entropy(b.model(x) * (1 + ring[0].mean()), y)
        ring[1].mul_(0.9).add_(loss.detach())
        ring[2].copy_(ring[0])
        return b.update(loss)

    return b.world(step, ring)
