"""Arguments of a step function: followed from step to step, or refused; never frozen."""

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy
import pytest
import torch
import torch.nn.functional as F
from fitstep.errors import CaptureError
from torch import nn

import fitstep


@dataclass
class Batch:
    """What a collate function may make."""

    x: torch.Tensor
    y: torch.Tensor


class Mode(enum.Enum):
    """A choice that a step is given."""

    PLAIN = 1
    DOUBLED = 2


def trainer(
    loss_of: Callable[..., torch.Tensor],
) -> tuple[nn.Module, Callable[..., torch.Tensor]]:
    """A small model and a step that trains it with `loss_of(model, *args)`."""
    torch.manual_seed(0)
    model = nn.Linear(8, 5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(*args: Any, **kwargs: Any) -> torch.Tensor:
        optimizer.zero_grad()
        loss = loss_of(model, *args, **kwargs)
        loss.backward()
        optimizer.step()
        return loss

    return model, step


def batches() -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(6, 8, generator=generator), torch.randint(0, 5, (6,), generator=generator))
        for _ in range(3)
    ]


def plain_loss(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(model(x), y)


def refused(step: Callable[..., Any], *example: Any) -> str:
    with pytest.raises(CaptureError) as raised:
        fitstep.compile(step, example=example, budget="300%")
    assert raised.value.todo
    return str(raised.value)


def by_sum(loss: torch.Tensor) -> torch.Tensor:
    return loss.sum()


def doubled(loss: torch.Tensor) -> torch.Tensor:
    return loss + loss


@pytest.mark.parametrize(
    "values",
    [
        (Mode.PLAIN, Mode.DOUBLED),
        (numpy.float32(1), numpy.float32(2)),
        (by_sum, doubled),
        (1 + 0j, 2 + 0j),
        (b"a", b"b"),
    ],
)
def test_constants_as_arguments_choose_the_program(values: tuple[Any, Any]) -> None:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor, value: Any) -> torch.Tensor:
        loss = plain_loss(model, x, y)
        if callable(value):
            return value(loss)
        return loss * 2 if value == values[1] else loss

    model, step = trainer(loss_of)
    expected_model, expected_step = trainer(loss_of)
    compiled = fitstep.compile(step, example=(*batches()[0], values[0]), budget="300%")
    for i, batch in enumerate(batches() * 2):
        found, expected = (f(*batch, values[i % 2]) for f in (compiled, expected_step))
        assert torch.equal(found, expected)
        assert torch.equal(model.weight, expected_model.weight)


def test_a_sparse_argument_trains_as_in_plain_pytorch() -> None:
    def loss_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return plain_loss(model, x.to_dense(), y)

    model, step = trainer(loss_of)
    expected_model, expected_step = trainer(loss_of)
    x, y = batches()[0]
    compiled = fitstep.compile(step, example=(x.to_sparse(), y), budget="300%")
    for x, y in batches():
        assert torch.equal(compiled(x.to_sparse(), y), expected_step(x.to_sparse(), y))
        assert torch.equal(model.weight, expected_model.weight)
