"""A training whose model sends signals to its own process, as often as a test wants."""

import os
import signal
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn

import fitstep

BUDGET = "4MiB"


class Job:
    """A small model under AdamW; two jobs have equal bits."""

    def __init__(self) -> None:
        torch.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 8))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.01)
        self.x, self.y = torch.randn(16, 32), torch.randint(0, 8, (16,))

    def step(self, x: Tensor, y: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(signals(x)), y)
        loss.backward()
        late = signals(loss.detach())
        self.optimizer.step()
        return loss + 0 * late  # So that an op comes behind it, in which a step can be stopped.

    def compiled(self) -> fitstep.Step:
        return fitstep.compile(self.step, example=(self.x, self.y), budget=BUDGET)

    def weights(self) -> list[Tensor]:
        return [p.detach().clone() for p in self.model.parameters()]


pending: list[int] = []  # How many signals each call of the op below sends.


@torch.library.custom_op("fitstep_test::signals", mutates_args=())
def signals(x: Tensor) -> Tensor:
    """A copy of x. Interrupts its own process as often as is pending; if negative, also fails."""
    count = pending.pop(0) if pending else 0
    for _ in range(abs(count)):
        os.kill(os.getpid(), signal.SIGINT)
    if count < 0:
        raise RuntimeError("failed on purpose")
    return x.clone()


@signals.register_fake
def _(x: Tensor) -> Tensor:
    return torch.empty_like(x)


signals.register_autograd(lambda _ctx, grad: grad)
fitstep.declare_pure(signals)  # It shall run in programs.


@pytest.fixture(autouse=True)
def interruptible() -> Iterator[None]:
    """Nothing is pending, and Ctrl-C acts: a shell's background jobs are started ignoring it."""
    pending.clear()
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
