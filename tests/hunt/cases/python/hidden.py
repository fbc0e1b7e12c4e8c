"""State in places where few look, and numbers that are read past operators.

From an attack on this project: each of these trained on with other numbers, in silence.
"""

from __future__ import annotations

import contextvars
import enum
import functools
import types
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from kit import add, case
from torch import Tensor
from worlds import Bench


class Holder:
    """An object with a count."""

    def __init__(self) -> None:
        self.count = 0


def counting(make: Callable[[], tuple[Callable[[], int], Any]]) -> Any:
    """A case in which a count decides how a step trains from some call on."""

    def world() -> Any:
        b = Bench()
        count, kept = make()

        def step(x: Tensor, y: Tensor) -> Tensor:
            scale = 0.5 if count() > 3 else 1.0
            return b.update(b.loss(x, y) * scale)

        return b.world(step, kept)

    add("hidden", f"count_in_{make.__name__}", world)
    return make


@counting
def a_bound_append() -> Any:
    history: list[int] = []
    log = history.append

    def count() -> int:
        log(1)
        return len(history)

    return count, history


@counting
def a_bound_deque_append() -> Any:
    history: deque[int] = deque(maxlen=50)
    log = history.append

    def count() -> int:
        log(1)
        return len(history)

    return count, history


@counting
def a_warm_cache() -> Any:
    @functools.lru_cache(None)
    def meter() -> Holder:
        return Holder()

    meter()

    def count() -> int:
        meter().count += 1
        return meter().count

    return count, meter()


@counting
def a_bounded_cache() -> Any:
    @functools.lru_cache(maxsize=4)
    def meter(_key: int) -> list[int]:
        return [0]

    meter(1)

    def count() -> int:
        meter(1)[0] += 1
        return meter(1)[0]

    return count, meter(1)


@counting
def an_enum_member() -> Any:
    class Phase(enum.Enum):
        TRAIN = {"count": 0}  # noqa: RUF012

    def count() -> int:
        Phase.TRAIN.value["count"] += 1
        return Phase.TRAIN.value["count"]

    return count, Phase.TRAIN.value


@counting
def a_weak_reference() -> Any:
    holder = Holder()
    reference = weakref.ref(holder)

    def count() -> int:
        found = reference()
        assert found is not None
        found.count += 1
        return found.count

    return count, holder


@counting
def a_context_variable() -> Any:
    variable: contextvars.ContextVar[list[int]] = contextvars.ContextVar("seen")
    seen: list[int] = []
    variable.set(seen)

    def count() -> int:
        variable.get().append(1)
        return len(variable.get())

    return count, seen


@counting
def a_mapping_proxy() -> Any:
    inner = {"count": [0]}
    proxy = types.MappingProxyType(inner)

    def count() -> int:
        proxy["count"][0] += 1
        return proxy["count"][0]

    return count, inner


@counting
def a_memory_view() -> Any:
    content = bytearray(4)
    view = memoryview(content)

    def count() -> int:
        view[0] += 1
        return view[0]

    return count, content


@counting
def a_new_attribute_of_a_function() -> Any:
    def count() -> int:
        count.seen = getattr(count, "seen", 0) + 1  # type: ignore[attr-defined]
        return int(count.seen)  # type: ignore[attr-defined]

    return count, count


@case("hidden")
def new_attributes_of_parameters() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        for p in b.model.parameters():
            p.count = getattr(p, "count", 0) + 1  # type: ignore[attr-defined]
            p.before = p.detach().clone()  # type: ignore[attr-defined]
        return b.usual(x, y)

    return b.world(step, b.model)


@case("hidden")
def averages_in_inference_mode() -> Any:
    b = Bench()
    averages = [p.detach().double() for p in b.model.parameters()]

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        with torch.inference_mode():
            for average, p in zip(averages, b.model.parameters(), strict=True):
                average.lerp_(p.double(), 0.1)
        return loss

    return b.world(step, averages)


@case("hidden")
def accuracy_in_inference_mode() -> Any:
    b = Bench()
    seen: list[float] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        with torch.inference_mode():
            seen.append((b.model(x).argmax(1) == y).float().mean().item())
        return loss

    return b.world(step, seen)


def numbers(read: Callable[[Tensor], Tensor]) -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> Tensor:
        b.usual(x, y)
        bias = [*b.model.parameters()][-1].detach()
        return b.update(F.cross_entropy(b.model(x * read(bias).abs().sum()), y))

    return b.world(step)


@case("hidden")
def a_tensor_of_numbers() -> Any:
    return numbers(lambda t: torch.tensor([t[0], t[1], 1.0]))


@case("hidden")
def a_tensor_of_nested_numbers() -> Any:
    return numbers(lambda t: torch.as_tensor([[t[0]], [t[1]]]))


@case("hidden")
def an_old_tensor_of_numbers() -> Any:
    return numbers(lambda t: torch.FloatTensor([t[0], 2.0]))


@case("hidden")
def a_new_tensor_of_numbers() -> Any:
    return numbers(lambda t: t.new_tensor([t[0], t[1]]))


@case("hidden")
def a_tensor_of_losses() -> Any:
    b = Bench()
    seen: list[list[float]] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        first, second = b.loss(x, y), b.model(x).square().mean()
        seen.append(torch.tensor([first.detach(), second.detach()]).tolist())
        return b.update(first + second)

    return b.world(step, seen)


@case("hidden")
def a_default_dtype_within_a_step() -> Any:
    b = Bench()

    def step(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        torch.set_default_dtype(torch.float64)
        try:
            third = torch.ones(x.shape[1]) / 3
        finally:
            torch.set_default_dtype(torch.float32)
        return b.update(F.cross_entropy(b.model(x * third.float()), y)), third

    return b.world(step)


@case("hidden")
def an_optimizer_s_state_beside_a_sparse_tensor() -> Any:
    b = Bench()
    adjacency, counts = torch.eye(4).to_sparse(), np.zeros(2)

    def step(x: Tensor, y: Tensor) -> Tensor:
        counts[0] += adjacency.shape[0]
        return b.usual(x, y)

    return b.world(step, counts)


@case("hidden")
def two_looks_at_a_parameter() -> Any:
    b = Bench()
    seen: list[tuple[float, float]] = []

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y)
        weight = next(iter(b.model.parameters())).detach()
        seen.append((float(weight.numpy().mean()), float(weight.numpy().std())))
        return loss

    return b.world(step, seen)


@case("hidden")
def a_method_of_a_tensor_from_before() -> Any:
    b = Bench()
    level = torch.ones(3)
    read = level.tolist

    def step(x: Tensor, y: Tensor) -> Tensor:
        level.mul_(0.9)
        return b.update(F.cross_entropy(b.model(x * read()[0]), y))

    return b.world(step, level)


class Outer:
    """With a class within, and a class from which another one inherits."""

    class Inner:
        count = 0

    history: list[int] = []  # noqa: RUF012


class Child(Outer):
    """Has its base class's list."""


@counting
def a_class_within_a_class() -> Any:
    Outer.Inner.count = 0

    def count() -> int:
        Outer.Inner.count += 1
        return Outer.Inner.count

    return count, Outer.Inner.__dict__.get("count")


@counting
def a_base_class() -> Any:
    Outer.history.clear()

    def count() -> int:
        Child.history.append(1)
        return len(Child.history)

    return count, Outer.history


@counting
def one_of_very_many_objects() -> Any:
    """As in a large buffer of transitions that have priorities."""
    many: list[Any] = [None] * 100_000
    many += [Holder(), ({"calls": 0}, 1.0), [0]]

    def count() -> int:
        holder, (numbers, _), counts = many[-3:]
        holder.count += 1
        numbers["calls"] += 1
        counts[0] += 1
        return min(holder.count, numbers["calls"], counts[0])

    return count, many[-3:]
