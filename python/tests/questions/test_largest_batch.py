"""fitstep.largest_batch: the batch that it names trains in the budget, and the next is refused."""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from fitstep.questions.batches import BatchSearch, Sample
from fitstep.questions.fits import Fits
from torch import Tensor, nn

import fitstep

BUDGET = 40_000


class KnownPlanner(BatchSearch):
    """A search beside a planner that finds plans at once up to `quick` rows, with a long search up
    to `thorough`, and whose floor is the budget at `most` rows."""

    def __init__(self, quick: int, thorough: int, most: int) -> None:
        settings = SimpleNamespace(budget=10 * most)
        making: Any = SimpleNamespace(settings=settings)
        super().__init__(making, example, 1, 1 << 16, None)
        self.quick, self.thorough, self.most = quick, thorough, most
        self.long_searches: list[int] = []

    def verdict(self, rows: int, *, takes_first_plan: bool = False, **_: Any) -> Fits:
        fits = rows <= (self.quick if takes_first_plan else self.thorough)
        if not takes_first_plan:
            self.long_searches.append(rows)
        return Fits(fits, 10 * self.most, 10 * rows, None, 100 * rows, None, None, (), 0.0)

    def _sample(self, units: int) -> Sample:
        found = self.verdict(units, takes_first_plan=True)
        asked: Any = units
        self._samples[units] = Sample(found, asked, units)
        self._is_straight = units in self._estimates
        return self._samples[units]

    def _estimate(self, measured: Any, units: int, *, takes_first_plan: bool = False) -> Fits:
        self._estimates[units] = self.verdict(units, takes_first_plan=takes_first_plan)
        return self._estimates[units]


@pytest.mark.parametrize("beyond", [0, 1, 2, 6, 15, 24, 25])
def test_what_only_a_long_search_finds_is_found_in_few(
    beyond: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a floor 25 rows above what is found at once. Each long search takes seconds."""
    search = KnownPlanner(35, 35 + beyond, 60)
    monkeypatch.setattr("fitstep.questions.batches.verdict", search.verdict)
    found = search.run()
    assert found.batch == 35 + beyond
    assert found.next_batch == found.batch + 1
    assert len(found.asked) == (3 if beyond else 2)
    assert len(search.long_searches) <= 10  # Of 25 rows 5 by halving, some strides, and the answer.


class Chain:
    def __init__(self, square: bool = False) -> None:
        torch.manual_seed(5)
        layers = [part for _ in range(2) for part in (nn.Linear(16, 16), nn.Tanh())]
        self.model, self.square = nn.Sequential(*layers), square
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)

    def step(self, x: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        y = self.model(x)
        loss = (y @ y.T).square().mean() if self.square else y.square().mean()
        loss.backward()
        self.optimizer.step()
        return loss


def example(rows: int) -> Tensor:
    return torch.randn(rows, 16)


def holds(job: Any, rows: int, budget: int = BUDGET) -> bool:
    """Whether compile takes this batch; then one step runs within the budget."""
    try:
        step = fitstep.compile(job.step, example(rows), budget=budget, effort=1)
    except fitstep.BudgetTooSmall:
        return False
    step(example(rows))
    assert step.report().violations == 0
    step.close()
    return True


@pytest.mark.parametrize("square", [False, True])
def test_the_batch_trains_and_the_next_is_refused(square: bool) -> None:
    job = Chain(square)
    found = fitstep.largest_batch(job.step, example, BUDGET, effort=1)
    assert found and int(found) == found.batch > 7
    assert found.fits is not None and found.fits
    assert found.above is not None and not found.above
    assert found.next_batch == found.batch + 1
    assert len(found.asked) <= (16 if square else 3)  # Squares are on no straight line.
    assert holds(job, found.batch)
    assert not holds(job, found.batch + 1)
    assert f"largest batch {found.batch}" in str(found)


def test_nothing_has_changed_afterwards() -> None:
    job = Chain()
    before = [p.detach().clone() for p in job.model.parameters()]
    state = torch.get_rng_state()
    fitstep.largest_batch(job.step, example, BUDGET, effort=1)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(map(torch.equal, before, job.model.parameters()))
    assert not job.optimizer.state


def test_multiples_and_a_limit() -> None:
    job = Chain()
    by_eight = fitstep.largest_batch(job.step, example, BUDGET, multiple_of=8, effort=1)
    assert by_eight.batch % 8 == 0 and by_eight.next_batch == by_eight.batch + 8
    assert all(batch % 8 == 0 for batch in by_eight.asked)
    few = fitstep.largest_batch(job.step, example, BUDGET, most=5, effort=1)
    assert (few.batch, few.above, few.next_batch) == (5, None, None)


def test_no_batch_fits_where_parameters_alone_do_not() -> None:
    found = fitstep.largest_batch(Chain().step, example, 2048, effort=1)
    assert not found
    assert (found.batch, found.fits, found.next_batch) == (0, None, 1)
    assert found.above is not None
    assert (found.above.least_found_bytes or 0) > 2048
    assert "no batch fits" in str(found)


def test_a_batch_far_too_large_is_refused_without_measuring_it() -> None:
    job = Chain()
    tried = []

    def make(rows: int) -> Tensor:
        tried.append(rows)
        return example(rows)

    found = fitstep.largest_batch(job.step, make, BUDGET, multiple_of=10_000, effort=1)
    assert found.batch == 0
    assert max(tried) <= 70_000


SIZES = count(7)
FEW = torch.randn(20, 16)


def raising(_: int) -> Tensor:
    raise OSError("no file")


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (raising, OSError, "no file"),
        (lambda n: torch.randn(32, 16), fitstep.SettingError, "pass multiple_of=k, too"),
        (lambda _: torch.randn(next(SIZES), 16), fitstep.SettingError, "a loader"),
        (lambda n: (torch.randn(n, 16), 1), fitstep.CaptureError, "cannot be called"),
        (lambda n: FEW[:n], fitstep.SettingError, "pass most=20"),
        (FEW, fitstep.SettingError, "a function of the number of rows"),
    ],
)
def test_a_make_example_that_is_wrong(
    make: Callable[[int], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        fitstep.largest_batch(Chain().step, make, BUDGET, effort=1)


def test_a_step_that_refuses_a_single_row_is_never_tried_with_one_if_more_fit() -> None:
    job = Chain()

    def step(x: Tensor) -> Tensor:
        if len(x) == 1:
            raise ValueError("more than one value per channel")
        return job.step(x)

    assert fitstep.largest_batch(step, example, BUDGET, model=job.model, effort=1).batch > 1
    with pytest.raises(ValueError, match="per channel") as raised:
        fitstep.largest_batch(step, example, 2048, model=job.model, effort=1)
    if sys.version_info >= (3, 11):
        assert "asked about a batch of 1;" in "".join(raised.value.__notes__)


@pytest.mark.parametrize("budget", ["60%", 0.6, None, {"cpu": 0.5}, {"disk": "1GiB"}])
def test_a_budget_that_grows_with_the_batch_is_refused(budget: Any) -> None:
    with pytest.raises(fitstep.BudgetError, match="write"):
        fitstep.largest_batch(Chain().step, example, budget)


def test_a_step_whose_operators_change_with_the_batch() -> None:
    job = Chain()

    def step(x: Tensor) -> Tensor:
        return job.step(torch.cat([x[:20].abs(), x[20:]]) if len(x) > 20 else x)

    found = fitstep.largest_batch(step, example, BUDGET, model=job.model, effort=1)
    assert found.batch > 20 and not found.above
