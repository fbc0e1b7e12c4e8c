"""What a recording cannot follow is refused in words, and nothing is changed."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fitstep.errors import CaptureError
from torch import nn

import fitstep


def refused(step: Callable[..., Any], example: tuple[Any, ...]) -> str:
    with pytest.raises(CaptureError) as raised:
        fitstep.compile(step, example=example, budget="300%")
    assert raised.value.todo
    return str(raised.value)


def test_a_sparse_gradient_is_refused_where_it_comes_from() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(20, 8, sparse=True), nn.Flatten(), nn.Linear(32, 5))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    before = [p.clone() for p in model.parameters()]
    message = refused(step, (torch.randint(0, 20, (6, 4)), torch.randint(0, 5, (6,))))
    assert "not dense" in message
    assert f"{__file__}:" in message
    assert "sparse=False" in message
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    assert all(p.grad is None for p in model.parameters())
