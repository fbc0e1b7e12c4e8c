"""Results that lie where an input of their operator lay: equal bits, a lower floor, less memory."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from fitstep_kit.measures.bits import Fingerprint, differences, fingerprint
from fitstep_kit.measures.plain import held_bytes
from torch import Tensor, nn

import fitstep
from fitstep import _core

ROWS, WIDTH = 1024, 256
MAP_BYTES = ROWS * WIDTH * 4


class Job:
    """Few weights and large maps: two linear layers with an activation between and behind them."""

    def __init__(self, activation: Callable[[], nn.Module]) -> None:
        torch.manual_seed(5)
        layers = [nn.Linear(WIDTH, WIDTH), activation(), nn.Linear(WIDTH, WIDTH), activation()]
        self.model = nn.Sequential(*layers)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.x = torch.linspace(-1, 1, ROWS * 8).reshape(ROWS, 8)

    def step(self, x: Tensor) -> Tensor:
        self.optimizer.zero_grad()
        y: Tensor = self.model(x.repeat(1, WIDTH // 8))
        loss = (y * 2 + 1).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, step: Callable[[Tensor], Tensor], steps: int = 3) -> Fingerprint:
        losses = [step(self.x).detach().clone() for _ in range(steps)]
        return fingerprint(model=self.model, losses=losses)


ACTIVATIONS = [nn.ReLU, nn.GELU, nn.Tanh, nn.SiLU, nn.Sigmoid, nn.ELU, nn.Hardswish, nn.LeakyReLU]


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_the_least_budget_gives_equal_bits(activation: Callable[[], nn.Module]) -> None:
    with pytest.raises(fitstep.BudgetTooSmall) as refused:
        fitstep.compile(Job(activation).step, Job(activation).x, 1)
    ours, plain = Job(activation), Job(activation)
    budget = refused.value.least_found_bytes
    step = fitstep.compile(ours.step, (ours.x,), budget)
    text = str(step.program)
    found = ours.train(step)
    report = step.report()
    step.close()
    assert differences(found, plain.train(plain.step)) == []
    assert report.violations == report.misplaced_results == 0
    assert re.search(r"writes \d+\.\d+<\d+", text), "some result may take an input's address"


def test_a_backward_pass_needs_room_for_a_map_less() -> None:
    """Beside its own result, threshold_backward reads a gradient and the map that relu made."""
    with pytest.raises(fitstep.BudgetTooSmall) as refused:
        fitstep.compile(Job(nn.ReLU).step, (Job(nn.ReLU).x,), 1)
    assert refused.value.floor_bytes < 3 * MAP_BYTES


def test_the_budget_holds_while_operators_are_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of those whose operands would not fit if each had its own place: no profile is kept."""
    monkeypatch.setenv("FITSTEP_CACHE", str(tmp_path))
    job, plain = Job(nn.ReLU), Job(nn.ReLU)
    with pytest.raises(fitstep.BudgetTooSmall) as refused:
        fitstep.compile(Job(nn.ReLU).step, (Job(nn.ReLU).x,), 1)
    (tmp_path / "empty").mkdir()
    monkeypatch.setenv("FITSTEP_CACHE", str(tmp_path / "empty"))
    live = _core.counted_live_bytes()
    _core.reset_counted_peak()
    step = fitstep.compile(job.step, (job.x,), refused.value.least_found_bytes)
    assert _core.counted_peak_bytes() - live < MAP_BYTES, "outside the room that the budget leaves"
    found = job.train(step)
    step.close()
    assert differences(found, plain.train(plain.step)) == []


LARGE_BYTES = 4 << 20  # Of a map of the two nets that follow.


class Signs(nn.Module):
    """One large map, of which backward needs the signs."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 512), nn.ReLU(inplace=True), nn.Linear(512, 8))
        self.x = torch.linspace(-1, 1, 2048 * 8).sin().reshape(2048, 8)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layers(x)
        return y


class Places(nn.Module):
    """One large map, of whose pool backward needs the places."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.linspace(0.5, 2, 16).reshape(1, 16, 1, 1))
        self.x = torch.linspace(-9, 9, 1 << 20).sin().reshape(16, 16, 64, 64)

    def forward(self, x: Tensor) -> Tensor:
        return F.max_pool2d(x * self.scale, 2)


@pytest.mark.parametrize("net", [Signs, Places])
def test_the_budget_holds_while_forms_that_read_codes_are_compared(
    net: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With default forms, which need three maps, or 2.75 with one of which no byte is read."""

    def train(compiles: bool) -> Fingerprint:
        torch.manual_seed(5)
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def train_step(x: Tensor) -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        step: Any = train_step
        if compiles:
            live = _core.counted_live_bytes()
            _core.reset_counted_peak()
            budget = LARGE_BYTES * 5 // 2 + held_bytes(model, model.x)
            step = fitstep.compile(train_step, (model.x,), budget)
            outside = _core.counted_peak_bytes() - live
            assert outside < LARGE_BYTES // 2, "outside the room that the budget leaves"
        losses = [step(model.x).detach().clone() for _ in range(3)]
        if compiles:
            step.close()
        return fingerprint(model=model, losses=losses)

    monkeypatch.setenv("FITSTEP_CACHE", str(tmp_path))
    assert differences(train(True), train(False)) == []
