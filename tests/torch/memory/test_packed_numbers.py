"""Ops that pack values are inserted between others: numbers still reach the ops they are for."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor, nn

import fitstep


@pytest.mark.parametrize("middle", [nn.ReLU(), nn.Dropout()])
def test_bias_corrections_reach_the_updates_behind_packed_values(middle: nn.Module) -> None:
    """AdamW has other numbers in every step; packing has moved all later ops."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), middle, nn.Linear(256, 10))
    batch = torch.randn(4096, 64)
    found = []
    for compiled in (False, True):
        own = copy.deepcopy(model)
        optimizer = torch.optim.AdamW(own.parameters())

        def train_step(x: Tensor, own: nn.Module = own, optimizer=optimizer) -> Tensor:
            optimizer.zero_grad()
            loss = own(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        step = fitstep.compile(train_step, example=batch) if compiled else train_step
        torch.manual_seed(1)
        losses = [step(batch).item() for _ in range(5)]
        if compiled:
            assert step.variants[-1].step.optional_op_count(), "this is a test of inserted ops"
        found.append((losses, [p.detach().clone() for p in own.parameters()]))
    assert found[0][0] == found[1][0]
    assert all(map(torch.equal, found[0][1], found[1][1]))
