"""Arguments of a step function: followed from step to step, or refused; never frozen."""

import enum
from collections import UserDict
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
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


@pytest.mark.parametrize(
    "wrap, advice",
    [
        (lambda x, y: UserDict(x=x, y=y), "dict(x)"),
        (lambda x, y: Batch(x, y), "vars(x)"),
        (lambda x, y: SimpleNamespace(x=x, y=y), "tensors and numbers themselves"),
        (lambda x, y: iter([(x, y)]), "the batch itself"),
    ],
)
def test_a_batch_in_an_object_is_not_trained_on_for_ever(
    wrap: Callable[..., Any], advice: str
) -> None:
    model, step = trainer(lambda model, batch: plain_loss(model, batch.x, batch.y))
    before = model.weight.clone()
    batch = wrap(*batches()[0])
    message = refused(step, batch)
    assert "argument 0 of the step function" in message
    assert advice in message
    assert torch.equal(model.weight, before)


def test_a_numpy_array_as_an_argument_is_refused_by_its_name() -> None:
    _, step = trainer(
        lambda model, batch: plain_loss(model, torch.from_numpy(batch["x"]), batch["y"])
    )
    x, y = batches()[0]
    message = refused(step, {"x": x.numpy(), "y": y})
    assert "argument 0['x'] of the step function" in message
    assert "torch.from_numpy" in message


def test_an_argument_that_is_changed_between_two_steps_is_refused() -> None:
    settings = SimpleNamespace(scale=1.0)
    _, step = trainer(lambda model, x, y, s: plain_loss(model, x, y) * s.scale)
    assert "argument 2" in refused(step, *batches()[0], settings)


def test_an_object_that_comes_only_later_is_refused_then() -> None:
    model, step = trainer(
        lambda model, x, y, scale=None: plain_loss(model, x, y) * (scale.value if scale else 1)
    )
    compiled = fitstep.compile(step, example=batches()[0], budget="300%")
    before = model.weight.clone()
    with pytest.raises(CaptureError, match="argument scale of the step function"):
        compiled(*batches()[0], scale=SimpleNamespace(value=2.0))
    assert torch.equal(model.weight, before)


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


def test_a_model_given_as_an_argument_is_followed_where_compile_knows_it() -> None:
    torch.manual_seed(0)
    model = nn.Linear(8, 5)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = plain_loss(net, x, y)
        loss.backward()
        optimizer.step()
        return loss

    assert "model=" in refused(step, nn.Linear(8, 5), *batches()[0])
    compiled = fitstep.compile(step, (model, *batches()[0]), "300%", model=model)
    losses = [compiled(model, *batches()[0]).item() for _ in range(3)]
    assert losses[2] < losses[0]


def test_a_sparse_argument_is_refused() -> None:
    _, step = trainer(lambda model, x, y: plain_loss(model, x.to_dense(), y))
    x, y = batches()[0]
    assert "to_dense" in refused(step, x.to_sparse(), y)
