"""Scripted and traced modules, which keep their state where Python cannot look."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
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


@torch.jit.script
def noise_by_sizes(x: Tensor) -> Tensor:
    """Draws without a device, which Python's functions always give."""
    y = x + 0.1 * torch.randn(x.size(0), x.size(1)) + torch.rand(1).item()
    y = y * torch.randint(1, 4, [x.size(0), 1]) + torch.normal(0.0, 0.1, [x.size(0), 1])
    return y + torch.zeros([x.size(1)]) + torch.full([1], 0.5)


@torch.jit.script
def shuffled(x: Tensor) -> Tensor:
    """Indices that are drawn."""
    return x[torch.randperm(x.size(0))]


@torch.jit.script
def chosen(x: Tensor) -> Tensor:
    """Indices and masks that are computed."""
    best = torch.argsort(x.sum(1))
    y = x[best].clone()
    y[best[:2], 1] = x[:2, 0]
    return y + x[x > 0].sum() * 0.01 + (x[best[:3], 1:] ** 2).mean()


def through(function: Any) -> Any:
    """A case whose loss comes through a scripted function; the fourth batch is larger."""

    def build() -> Any:
        b = Bench(make=sgd)

        def step(x: Tensor, y: Tensor) -> Tensor:
            return b.update(function(b.model(x)).square().mean() + F.cross_entropy(b.model(x), y))

        x, y = b.calls[3]
        b.calls[3] = (torch.cat([x, x]), torch.cat([y, y]))
        return b.world(step)

    return build


add("scripted", "scripted_noise_by_sizes", through(noise_by_sizes))
add("scripted", "scripted_shuffling", through(shuffled))
add("scripted", "scripted_choice", through(chosen))
add(
    "scripted",
    "noise_without_a_device",
    through(lambda x: x + torch.ops.aten.randn([x.shape[0], 1])),
)


@case("scripted")
def scripted_teacher_for_inference() -> Any:
    torch.manual_seed(3)
    layers = nn.Sequential(nn.Conv2d(1, 4, 3, padding=1), nn.ReLU()).eval()
    teacher = torch.jit.optimize_for_inference(torch.jit.script(layers))
    student = nn.Conv2d(1, 4, 3, padding=1)
    b = Bench(student, sgd)

    def step(x: Tensor, _: Tensor) -> Tensor:
        images = x.view(-1, 1, 4, 2)
        with torch.no_grad():
            wanted = teacher(images)
        return b.update(F.mse_loss(student(images), wanted))

    return b.world(step)
