"""What most cases are built from: a tiny model, an optimizer, five batches, a log."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

ROWS, FEATURES, CLASSES = 6, 8, 4
Body = Callable[["Bench", Tensor, Tensor], Any]


def mlp() -> nn.Module:
    """Three operators with weights in four parameters."""
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, CLASSES))


def batches(count: int = 5, rows: int = ROWS, seed: int = 7) -> list[Any]:
    """Classification batches (x, y), from a generator of their own."""
    g = torch.Generator().manual_seed(seed)
    made = range(count)
    return [
        (
            torch.randn(rows, FEATURES, generator=g),
            torch.randint(CLASSES, (rows,), generator=g),
        )
        for _ in made
    ]


def sgd(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adam(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=0.01)


class Bench:
    """Model, optimizer, batches and places where a step can leave numbers and text."""

    def __init__(
        self,
        model: nn.Module | None = None,
        make: Callable[[Any], Any] = adam,
        count: int = 5,
        rows: int = ROWS,
    ) -> None:
        self.model = mlp() if model is None else model
        self.opt = make([p for p in self.model.parameters() if p.requires_grad])
        self.calls: list[Any] = batches(count, rows)
        self.log: list[Any] = []
        self.text = io.StringIO()

    def loss(self, x: Tensor, y: Tensor) -> Tensor:
        """The loss of a batch."""
        return F.cross_entropy(self.model(x), y)

    def update(self, loss: Tensor) -> Tensor:
        """The rest of a usual step."""
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss

    def usual(self, x: Tensor, y: Tensor) -> Tensor:
        """The usual step."""
        return self.update(self.loss(x, y))

    def probe(self, *more: Any) -> Callable[[], Any]:
        """All of it, and more."""
        return lambda: (self.model, self.opt, self.log, self.text, more)

    def world(self, step: Any, *more: Any, calls: list[Any] | None = None) -> Any:
        """What a case returns."""
        return step, self.calls if calls is None else calls, self.probe(*more)


def stepping(body: Body, make: Callable[[Any], Any] = adam, **options: Any) -> Any:
    """A case whose step is `body(bench, x, y)`."""

    def build() -> Any:
        b = Bench(make=make, **options)

        def step(x: Tensor, y: Tensor) -> Any:
            return body(b, x, y)

        return b.world(step)

    return build


def with_loss(change: Callable[[Any, Tensor, Tensor], Tensor]) -> Any:
    """A case whose step trains on `change(bench, loss, x)`."""

    def body(b: Bench, x: Tensor, y: Tensor) -> Tensor:
        return b.update(change(b, b.loss(x, y), x))

    return stepping(body)
