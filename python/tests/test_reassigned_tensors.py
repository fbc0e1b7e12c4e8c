"""Tensors that a step binds anew: the right numbers or an error, never those of the first call."""

from __future__ import annotations

import torch
from api_models import Job, compiled
from torch import Tensor


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


def test_a_total_that_is_added_to_in_place_accumulates() -> None:
    job = Totals()
    with compiled(job.in_place, (job.x, job.y)) as step:
        losses = [step(job.x, job.y) for _ in range(3)]
        assert torch.equal(job.total, losses[0] + losses[1] + losses[2])
