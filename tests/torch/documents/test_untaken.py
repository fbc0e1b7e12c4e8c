"""Programs with ways that plans do not take: what benchmarks/kernels/ asks the planner about."""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import fitstep
from benchmarks.kernels import in_halves
from fitstep import _core


@pytest.fixture
def program(tmp_path: Path) -> str:
    """Of two convolutions over planes, which ask for copies of their operands."""
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train_step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss: Tensor = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step = fitstep.compile(train_step, example=(torch.randn(8, 8, 64, 64),), budget="100%")
    step.program.save(tmp_path / "step.program")
    step.close()
    return (tmp_path / "step.program").read_text()


def test_convolutions_and_their_data_gradients_gain_forms_of_half_the_scratch(program: str) -> None:
    split, count = in_halves.with_halves(program)
    assert count == 3  # Both forward, and the gradient of what the second reads.
    added = [line for line in split.splitlines() if line.startswith('form "halves"')]
    assert len(added) == count
    lines = split.splitlines()
    for line in added:
        whole, half = (
            sum(in_halves.scratch_bytes(form)) for form in (lines[lines.index(line) - 1], line)
        )
        assert whole >= in_halves.LEAST_SCRATCH_BYTES
        assert half == pytest.approx(whole / 2, abs=64)
    assert _core.facts_of_program(split)["ops"] == _core.facts_of_program(program)["ops"]
