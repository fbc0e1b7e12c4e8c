"""The ways to write a budget."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy
import pytest
import torch
from api_models import Job
from fitstep.memory.budget import Budgets, budgets_on, check_budgets, written

import fitstep

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.parametrize("share", [0.6, numpy.float64(0.6), Fraction(3, 5)])
def test_a_float_is_a_share_with_the_same_bytes_as_percent(share: Any) -> None:
    for peak in (1, 999, 10**9 + 7, 2**47):
        assert written("budget", share).of(peak) == written("budget", "60%").of(peak)


@pytest.mark.parametrize("percent", [0.1, 7, 29, 33.3, 57, 100, 110.5, 1000])
def test_no_share_is_rounded_otherwise_than_in_percent(percent: float) -> None:
    share = float(f"{percent}e-2")
    assert written("budget", share).percent == written("budget", f"{percent}%").percent


def test_an_int_is_bytes_whatever_library_it_is_from() -> None:
    assert written("budget", 1).bytes == 1
    assert written("budget", numpy.int64(4096)).bytes == 4096  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "budget",
    [0.0, -0.5, 10.5, 6e9, float("nan"), float("inf"), -float("inf"), True, numpy.bool_(True),
     torch.tensor(0.5), [0.5], b"1GiB", 0, -1],
)  # fmt: skip
def test_what_is_no_budget_is_refused(budget: Any) -> None:
    for name in ("budget", "host_budget", "disk_budget"):
        with pytest.raises(fitstep.BudgetError, match=f"{name}="):
            fitstep.compile(Job().step, **{name: budget})


def test_bytes_as_a_float_are_refused_with_the_int_to_write() -> None:
    with pytest.raises(fitstep.BudgetError, match="budget=6000000000,"):
        written("budget", 6e9)


@pytest.mark.parametrize(
    ("device", "budget", "found"),
    [
        (GPU, {0: "20GiB", "cpu": "64GiB"}, Budgets("20GiB", "64GiB", None)),
        (GPU, {"cuda:0": 0.5, "disk": "1GiB"}, Budgets(0.5, None, "1GiB")),
        (GPU, {"cuda": 1024}, Budgets(1024, None, None)),
        (GPU, {GPU: 1024}, Budgets(1024, None, None)),
        (GPU, {"cpu": "1GiB"}, Budgets(None, "1GiB", None)),
        (CPU, {"cpu": "4GiB", "disk": "100GiB"}, Budgets("4GiB", None, "100GiB")),
        (CPU, {torch.device("cpu"): 0.5}, Budgets(0.5, None, None)),
    ],
)
def test_a_dict_has_a_budget_for_each_memory(
    device: torch.device, budget: Any, found: Budgets
) -> None:
    check_budgets(budget, None, None)
    assert budgets_on(device, budget, None, None) == found


@pytest.mark.parametrize(
    ("budget", "says"),
    [
        ({}, "is empty"),
        ({"gpu": "1GiB"}, "unknown key 'gpu'"),
        ({-1: "1GiB"}, "unknown key -1"),
        ({True: "1GiB"}, "unknown key True"),
        ({0: "1GiB", 1: "1GiB"}, "more than one GPU"),
        ({0: "1GiB", "cuda:0": "1GiB"}, "more than one GPU"),
        ({"cpu": None}, "not a budget"),
        ({"cpu": {"cpu": 1}}, "not a budget"),
        ({"cpu": "lots"}, "lots"),
    ],
)
def test_a_wrong_dict_is_refused_before_anything_runs(budget: Any, says: str) -> None:
    with pytest.raises(fitstep.BudgetError, match=says):
        fitstep.compile(Job().step, budget=budget)


def test_a_dict_for_another_device_is_refused() -> None:
    job = Job()
    with pytest.raises(fitstep.BudgetError, match="the model is on the CPU"):
        fitstep.compile(job.step, (job.x, job.y), budget={0: "1GiB", "cpu": "1GiB"})
    with pytest.raises(fitstep.BudgetError, match="the model is on cuda:0"):
        budgets_on(GPU, {1: "1GiB"}, None, None)
    with pytest.raises(fitstep.BudgetError, match="given beside it"):
        fitstep.compile(job.step, budget={"cpu": "1GiB"}, disk_budget="1GiB")


def test_a_dict_works_as_the_arguments_do() -> None:
    job = Job()
    step = fitstep.compile(job.step, (job.x, job.y), budget={"cpu": "2MiB"}, effort=1)
    assert step.budget_bytes == 2 << 20
    fitstep.compile(job.step, (job.x, job.y), budget={"cpu": 2 << 20}, effort=1)
    step.close()


def test_a_share_joins_the_same_share() -> None:
    job = Job()
    step = fitstep.compile(job.step, (job.x, job.y), budget="120%", effort=1)
    fitstep.compile(job.step, (job.x, job.y), budget=1.2, effort=1)
    with pytest.raises(fitstep.BudgetError, match="earlier compiled step"):
        fitstep.compile(job.step, (job.x, job.y), budget=1.25, effort=1)
    step.close()
