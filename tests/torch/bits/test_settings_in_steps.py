"""Settings of torch that decide how kernels compute, changed while a step runs."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import fitstep


@contextmanager
def changed(get: Callable[[], Any], put: Callable[[Any], Any], value: Any) -> Iterator[None]:
    """The setting in its body."""
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


SETTINGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "mkldnn": lambda: torch.backends.mkldnn.flags(enabled=False),
    "threads": lambda: changed(torch.get_num_threads, torch.set_num_threads, 1),
    "deterministic": lambda: changed(
        torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms, True
    ),
    "precision": lambda: changed(
        torch.get_float32_matmul_precision, torch.set_float32_matmul_precision, "medium"
    ),
    "denormals": lambda: changed(lambda: False, torch.set_flush_denormal, True),
}


class Net(nn.Module):
    """Convolutions and layers, some of them under another setting."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.Conv2d(16, 16, 5))
        self.head = nn.Linear(256, 4)

    def forward(self, x: Tensor, setting: Callable[[], AbstractContextManager[Any]]) -> Tensor:
        """`x`: (batch, 3, 8, 8)."""
        with setting():
            found = self.features(x).relu()
            found = found + (found * 1e-39) * 1e38
        return self.head(found.flatten(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize("audits", ["off", "all"])
@pytest.mark.parametrize("name", SETTINGS)
def test_kernels_run_under_the_setting_that_they_were_called_under(name: str, audits: str) -> None:
    setting = SETTINGS[name]

    def training() -> tuple[Net, Callable[..., Tensor]]:
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train(x: Tensor, y: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x, setting), y)
            with setting():
                loss.backward()
            optimizer.step()
            return loss

        return model, train

    def batch() -> tuple[Tensor, Tensor]:
        return torch.randn(8, 3, 8, 8), torch.randint(0, 4, (8,))

    (model, train), (plain, plain_train) = training(), training()
    before = torch.get_num_threads(), torch.backends.mkldnn.enabled
    with closing(fitstep.compile(train, batch(), audits=audits, progress=False)) as step:
        assert (torch.get_num_threads(), torch.backends.mkldnn.enabled) == before
        made = []
        for _ in range(3):
            x, y = batch()
            assert torch.equal(step(x, y), plain_train(x, y))
            for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
                assert torch.equal(ours, theirs)
            made.append(len(step.variants))
        assert made[1] == made[2]


def test_a_value_asked_for_where_no_gradients_are_made_leads_to_the_same_programs() -> None:
    model = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    norms = []

    def train(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        with torch.no_grad():
            norms.append(model.weight.norm().item())
        optimizer.step()
        return loss

    with closing(fitstep.compile(train, torch.randn(2, 8), progress=False)) as step:
        made = len(step.variants)
        for _ in range(5):
            step(torch.randn(2, 8))
        assert len(step.variants) == made
