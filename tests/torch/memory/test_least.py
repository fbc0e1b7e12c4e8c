"""The least budget that BudgetTooSmall names is one at which planning was tried."""

import contextlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import fitstep
from fitstep import BudgetTooSmall


@pytest.mark.parametrize("below", ["host", "disk"])
def test_what_plain_pytorch_needs_fits_beside_a_tier(below: str, tmp_path: Path) -> None:
    """The smallest plans need a few bytes more than any bound says, and no search finds how many:
    a larger budget is tried then."""
    torch.manual_seed(0)
    model: nn.Module = nn.Linear(8, 4)
    if below == "host":
        model = nn.Sequential(nn.Linear(8, 2), nn.Dropout(0.5), nn.Linear(2, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    tier: dict[str, Any] = {"host_budget": "1MiB"}
    if below == "disk":
        tier = {"disk_budget": "1MiB", "disk_dir": tmp_path}
    x = torch.randn(4, 8)
    step = fitstep.compile(train, (x,), budget="100%", progress=False, **tier)
    with contextlib.closing(step):
        step(x)


def test_what_is_not_known_is_not_named() -> None:
    """A loop that takes the named budget would ask for the same for ever."""
    assert "raise the budget above" in str(BudgetTooSmall(100, 200))
    assert "raise the budget or make" in str(BudgetTooSmall(200, 100))


def test_at_most_four_operators_that_are_never_recomputed_are_in_the_message() -> None:
    names = [f"mylib::draw{i}" for i in range(6)]
    error = BudgetTooSmall(100, 200, unrepeatable=names)
    assert "never recomputed: mylib::draw0, mylib::draw1, mylib::draw2, mylib::draw3 and 2" in str(
        error
    )
    assert error.unrepeatable == tuple(names)
    assert "never recomputed" not in str(BudgetTooSmall(100, 200))


def test_a_compile_that_finds_no_plan_says_that_nothing_was_changed() -> None:
    model = nn.Linear(8, 4)
    before = model.weight.detach().clone()

    def train(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        return loss

    with pytest.raises(BudgetTooSmall) as raised:
        fitstep.compile(train, (torch.randn(4, 8),), budget=1, progress=False)
    assert str(raised.value).endswith("\n  nothing was changed")
    assert torch.equal(model.weight, before) and model.weight.grad is None
