"""Scripted and traced modules, which keep their state where Python cannot look."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import torch
from kit import add, case
from torch import Tensor, nn
from worlds import Bench, adam, sgd


class Counting(nn.Module):
    """State of every kind that a scripted module can change: replaced and overwritten tensors,
    whole and real numbers, lists."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("mean", torch.zeros(8))
        self.count: int = 0
        self.scale: float = 1.0
        self.sizes = [0]

    def forward(self, x: Tensor) -> Tensor:
        self.calls = self.calls + 1
        self.mean.mul_(0.9).add_(x.detach().mean(0))
        self.count = self.count + 1
        self.scale = self.scale * 0.9
        if self.count % 2 == 0:
            self.sizes.append(x.size(0))
        return (x - self.mean) * self.scale + self.calls * 0.01 + len(self.sizes)


class Within(nn.Module):
    """The same in a child."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.counting = nn.Linear(8, 8), nn.BatchNorm1d(8), Counting()
        self.last = nn.Linear(8, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.counting(self.norm(self.first(x))))


def scripted() -> nn.Module:
    return torch.jit.script(Within())


def loaded() -> nn.Module:
    file = io.BytesIO()
    torch.jit.save(torch.jit.script(Within()), file)
    file.seek(0)
    return torch.jit.load(file)


def traced() -> nn.Module:
    net = nn.Sequential(nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Linear(8, 4))
    return torch.jit.trace(net, torch.ones(6, 8), check_trace=False)


def of(make: Callable[[], nn.Module]) -> Any:
    """A case that trains such a module."""

    def build() -> Any:
        b = Bench(make(), make=adam)
        seen: list[Any] = []

        def step(x: Tensor, y: Tensor) -> Tensor:
            loss = b.usual(x, y)
            inner = getattr(b.model, "counting", None)
            if inner is not None:
                seen.append((inner.count, inner.scale, list(inner.sizes), inner.calls.item()))
            return loss

        return b.world(step, seen)

    return build


class Turning(nn.Module):
    """A zero whose sign says which call it is: equal to the other one, and not the same."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.zero = nn.Linear(8, 4), 0.0

    def forward(self, x: Tensor) -> Tensor:
        self.zero = -self.zero
        return self.first(x) * (1.5 + math.copysign(1.0, self.zero))


add("scripted", "scripted_sign_of_a_zero", of(lambda: torch.jit.script(Turning())))
add("scripted", "scripted_state_in_a_child", of(scripted))
add("scripted", "scripted_and_loaded", of(loaded))
add("scripted", "scripted_by_tracing", of(traced))
add("scripted", "scripted_part", of(lambda: nn.Sequential(scripted(), nn.ReLU())))


class Average(nn.Module):
    """A running mean, which a scripted module keeps where Python cannot look."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("average", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.average = self.average * 0.9 + x * 0.1
        return self.average


@case("scripted")
def scripted_average_of_asked_losses() -> Any:
    b = Bench(make=sgd)
    average = torch.jit.script(Average())

    def step(x: Tensor, y: Tensor) -> Tensor:
        loss = b.usual(x, y).detach()
        loss.item()
        return average(loss)

    return b.world(step)
