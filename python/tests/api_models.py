"""What the tests of the public functions train: small, with a plain twin to compare with."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

import fitstep


class Job:
    """A model, an optimizer and a batch; two jobs have equal bits."""

    def __init__(self, optimizer: type[torch.optim.Optimizer] = torch.optim.AdamW) -> None:
        torch.manual_seed(11)
        self.model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Dropout(0.1), nn.Linear(24, 3))
        self.optimizer = optimizer(self.model.parameters(), lr=0.01)
        self.x = torch.randn(32, 12)
        self.y = torch.randint(0, 3, (32,))

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss

    def state(self) -> list[Tensor]:
        """Everything whose bits count, copied."""
        found = [*self.model.parameters(), *self.model.buffers()]
        for entry in self.optimizer.state.values():
            found += [value for value in entry.values() if isinstance(value, Tensor)]
        return [tensor.detach().clone() for tensor in [*found, torch.get_rng_state()]]


def same(a: list[Tensor], b: list[Tensor]) -> bool:
    """Whether two states have equal bits."""
    return len(a) == len(b) and all(map(torch.equal, a, b))


@contextmanager
def compiled(function: Callable[..., Any], example: Any, **options: Any) -> Iterator[fitstep.Step]:
    """A compiled step with room enough, closed at the end."""
    options.setdefault("budget", "2MiB")
    step = fitstep.compile(function, example=example, effort=1, **options)
    try:
        yield step
    finally:
        step.close()
