"""The least budget that BudgetTooSmall names is one at which planning was tried."""

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fitstep.least import with_least
from torch import nn

import fitstep
from fitstep import BudgetTooSmall

ENOUGH = 130


class Asked:
    """Planning that says of a budget that 15 more are the least, up to ENOUGH."""

    def __init__(self, has_disk: bool = True, is_open: bool = False) -> None:
        self.budget_bytes = 1
        self.below = SimpleNamespace(has_disk=has_disk)
        self.arena_bytes = 1 if is_open else None
        self.looks_for = "plan"
        self.seen: list[tuple[str, int]] = []

    def take_budget(self, budget_bytes: int) -> None:
        assert self.arena_bytes is None
        self.budget_bytes = budget_bytes

    def plan(self) -> list[Any]:
        self.seen.append((self.looks_for, self.budget_bytes))
        if self.looks_for == "least" or self.budget_bytes < ENOUGH:
            least = max(self.budget_bytes, min(self.budget_bytes + 15, ENOUGH))
            raise BudgetTooSmall(self.budget_bytes, 90, least, [])
        return []

    def least(self, floor_bytes: int) -> BudgetTooSmall:
        planning: Any = self
        return with_least(planning, BudgetTooSmall(1, floor_bytes, 0, ["op"]), self.plan)


def test_beside_a_disk_it_is_tried_until_one_works() -> None:
    session = Asked()
    error = session.least(100)
    tries = [("least", 100), ("any", 115), ("least", 115), ("any", 130)]
    assert session.seen == tries
    assert (error.budget_bytes, error.floor_bytes, error.least_found_bytes) == (1, 100, 130)
    assert list(error.culprits) == ["op"]
    assert (session.budget_bytes, session.looks_for) == (1, "plan")


def test_it_is_not_tried_for_ever() -> None:
    session = Asked()
    assert session.least(5).least_found_bytes == 65
    assert (session.budget_bytes, session.looks_for) == (1, "plan")


@pytest.mark.parametrize("is_open", [False, True])
def test_without_a_disk_what_the_planner_says_is_enough(is_open: bool) -> None:
    session = Asked(has_disk=False, is_open=is_open)
    asked = 1 if is_open else 100  # The budget of an open session stays.
    assert session.least(100).least_found_bytes == asked + 15
    assert session.seen == [("least", asked)]
    assert session.budget_bytes == 1


def test_an_error_of_such_a_try_is_as_it_is() -> None:
    session: Any = Asked()
    session.looks_for = "any"
    error = BudgetTooSmall(1, 90, 100, [])
    assert with_least(session, error, session.plan) is error
    assert session.seen == []


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

    class Unlucky(Asked):
        def plan(self) -> list[Any]:
            raise BudgetTooSmall(self.budget_bytes, 90, None, [])

    error = Unlucky(has_disk=False).least(100)
    assert error.least_found_bytes is None
    assert "raise the budget above" in str(error)
    assert "raise the budget or make" in str(BudgetTooSmall(200, 100))
