"""Tensors that a step binds anew: the right numbers or an error, never those of the first call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from api_models import Job, compiled
from torch import Tensor

import fitstep


class Totals(Job):
    """Keeps more than the loss between two steps."""

    def __init__(self, optimizer: type[torch.optim.Optimizer] = torch.optim.SGD) -> None:
        super().__init__(optimizer)
        self.total = torch.zeros(())
        self.pair = (torch.zeros(()), torch.zeros(()))
        self.last: Tensor = torch.zeros(())

    def attribute(self, x: Tensor, y: Tensor) -> Tensor:
        loss = self.step(x, y)
        self.total = self.total + loss.detach()
        return loss

    def in_a_tuple(self, x: Tensor, y: Tensor) -> Tensor:
        loss = self.step(x, y)
        self.pair = (self.pair[0] + loss.detach(), self.pair[1] + 1)
        return loss

    def in_place(self, x: Tensor, y: Tensor) -> Tensor:
        loss = self.step(x, y)
        self.total += loss.detach()
        return loss

    def either(self, x: Tensor, y: Tensor, keeps: bool) -> Tensor:
        loss = self.step(x, y)
        if keeps:
            self.last = loss.detach()
            return loss
        return loss.detach() + self.last


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.AdamW])
@pytest.mark.parametrize("name", ["attribute", "in_a_tuple"])
def test_a_total_that_is_reassigned_is_refused(
    name: str, optimizer: type[torch.optim.Optimizer]
) -> None:
    job = Totals(optimizer)
    before = job.state()
    with pytest.raises(fitstep.CaptureError, match=r"(total|pair).*\n.*update it in place"):
        fitstep.compile(getattr(job, name), example=(job.x, job.y), budget="2MiB")
    assert all(map(torch.equal, before, job.state()))
    assert job.total.item() == 0


def test_a_nonlocal_total_that_is_reassigned_is_refused() -> None:
    def make(job: Job) -> Callable[..., Any]:
        total = torch.zeros(())

        def step(x: Tensor, y: Tensor) -> Tensor:
            nonlocal total
            loss = job.step(x, y)
            total = total + loss.detach()
            return loss

        return step

    job = Job()
    with pytest.raises(fitstep.CaptureError, match=r"total.*\n.*update it in place"):
        fitstep.compile(make(job), example=(job.x, job.y), budget="2MiB")


def test_a_total_that_is_added_to_in_place_accumulates() -> None:
    job = Totals()
    with compiled(job.in_place, (job.x, job.y)) as step:
        losses = [step(job.x, job.y) for _ in range(3)]
        assert torch.equal(job.total, losses[0] + losses[1] + losses[2])


def test_a_program_that_reads_what_another_has_replaced_is_not_run() -> None:
    job = Totals()
    with compiled(job.either, (job.x, job.y, False)) as step:
        step(job.x, job.y, False)
        step(job.x, job.y, True)
        with pytest.raises(fitstep.GuardError, match=r"last was replaced.*\n.*in place"):
            step(job.x, job.y, False)
