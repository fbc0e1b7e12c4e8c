"""A training whose activations are most of its bytes, so that half a budget needs decisions."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class WideJob:
    """Twelve layers on many rows; `example` are the arguments of `step`."""

    def __init__(self) -> None:
        torch.manual_seed(11)
        layers = [layer for _ in range(6) for layer in (nn.Linear(64, 64), nn.GELU())]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=0.9)
        self.example = torch.randn(2048, 64), torch.randn(2048, 64)

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        self.optimizer.step()
        return loss
