"""A small training by a plan, compared with plain PyTorch bit for bit.

    python -m fitstep.self_test

Ends with exit status 0 if all bits are equal. `fitstep.compile` runs it before it uses a torch that
is newer than all that fitstep was tested with. The plan recomputes, evicts and draws dropout again.
"""

from __future__ import annotations

import torch
from torch import nn

from .api import compile  # noqa: A004
from .steps.newer_torch import trust_torch

STEPS = 3


def main() -> str:
    """What was compared. Raises FitstepError if a bit differs."""
    trust_torch()
    torch.manual_seed(0)
    block = [nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.1)]
    layers = [nn.Conv2d(3, 8, 3, padding=1), *block, *(nn.Conv2d(8, 8, 1), nn.GELU()) * 2]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(8 * 16 * 16, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    x, y = torch.randn(32, 3, 16, 16), torch.randint(10, (32,))

    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    said = []
    for host_budget in (None, "64MiB"):
        step = compile(
            train, (x, y), budget="60%", audits="all", host_budget=host_budget, progress=False
        )
        for _ in range(STEPS):
            step(x, y)
        said.append(str(step.check(steps=STEPS)))
        step.close()
    return "\n".join(said)


if __name__ == "__main__":
    print(main())
