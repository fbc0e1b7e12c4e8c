"""A training whose weights and optimizer state do not fit: they are at home on a tier below."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import fitstep
from fitstep_kit.measures.bits import Fingerprint, fingerprint

STEPS = 4
BUDGET = "3MiB"  # Parameters and state are 4.5 MiB, gradients 1.5 MiB more.


class Job:
    """Wide layers and few rows, so that memory is weights, their gradients and their state."""

    def __init__(self, make_optimizer: Callable[..., torch.optim.Optimizer]) -> None:
        torch.manual_seed(5)
        layers: list[nn.Module] = []
        for _ in range(6):
            layers += [nn.Linear(256, 256), nn.GELU()]
        self.model = nn.Sequential(*layers)
        self.optimizer = make_optimizer(self.model.parameters())
        self.x = torch.linspace(-1, 1, 8 * 256).reshape(8, 256)

    def step(self, x: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss: Tensor = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def evaluate(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            found: Tensor = self.model(x).sum()
            return found

    def train(self, step: Callable[..., Tensor], steps: int = STEPS) -> Fingerprint:
        losses = [step(self.x).detach().clone() for _ in range(steps)]
        return fingerprint(model=self.model, optimizer=self.optimizer, losses=losses)

    def compiled(self, budget: str = BUDGET, **options: Any) -> fitstep.Step:
        options = {"host_budget": "64MiB", "effort": 1, **options}
        return fitstep.compile(self.step, (self.x,), budget, **options)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.01)


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.01, momentum=0.9, nesterov=True)


def below(step: fitstep.Step) -> set[str]:
    """Names of what is at home on a tier below."""
    return {name for name, home in step._session.homes.items() if home.is_below}


def on_disk(job: Job, folder: Path, budget: str = BUDGET, **options: Any) -> fitstep.Step:
    """Compiled with homes in a file of the folder."""
    tier: dict[str, Any] = {"host_budget": None, "disk_budget": "64MiB", "disk_dir": folder}
    return job.compiled(budget, **{**tier, **options})
