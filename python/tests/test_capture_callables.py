"""What can be compiled besides a plain function: partials, methods, callable objects."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import fitstep


class Trainer:
    """Trains a small model, in every way that Python has to call something."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        self.model = nn.Linear(8, 5)
        self.optimizer = torch.optim.SGD(self.model.parameters(), 0.1)

    def scaled(self, scale: Any, x: torch.Tensor, y: torch.Tensor, shift: Any = 0) -> torch.Tensor:
        """One step."""
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x) + shift, y) * scale
        loss.backward()
        self.optimizer.step()
        return loss

    def __call__(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return self.scaled(1.0, x, y)

    @classmethod
    def of_class(cls, trainer: "Trainer", x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """One step of a trainer."""
        return trainer(x, y)


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(6, 8, generator=generator), torch.randint(0, 5, (6,), generator=generator))
        for _ in range(4)
    ]


@pytest.mark.parametrize(
    "make",
    [
        lambda t: functools.partial(t.scaled, 2.0),
        lambda t: functools.partial(t.scaled, 2.0, shift=0.5),
        lambda t: functools.partial(functools.partial(t.scaled, shift=torch.ones(5)), 2.0),
        lambda t: functools.partial(Trainer.scaled, t, torch.tensor(2.0)),
        lambda t: functools.partial(Trainer.of_class, t),
        lambda t: functools.partial(t),
        lambda t: t,
        lambda t: t.__call__,
    ],
)
def test_partials_and_callable_objects_train_like_functions(
    make: Callable[[Trainer], Callable[..., torch.Tensor]],
) -> None:
    trainer, expected = Trainer(), Trainer()
    step = fitstep.compile(make(trainer), example=batches()[0], budget="300%")
    plain = make(expected)
    for batch in batches():
        assert torch.equal(step(*batch), plain(*batch))
        assert torch.equal(trainer.model.weight, expected.model.weight)
