"""Plans from files: homes lie where the plan has them, or the file is refused."""

import subprocess
from pathlib import Path

import pytest
import torch
from fitstep_kit.builds import build_folder
from torch import nn

import fitstep

COMMAND = build_folder("dev") / "fitstep"


class Job:
    """Plain SGD, which makes no state: one program. No size is a multiple of a block."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        layers = [nn.Linear(97, 97), nn.Tanh()] * 2 + [nn.Linear(97, 95), nn.Tanh()]
        self.model = nn.Sequential(*layers, nn.Linear(95, 33), nn.Tanh(), nn.Linear(33, 7))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        self.x = torch.randn(41, 97)

    def step(self, x: torch.Tensor) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss

    def train(self, step: object) -> list[torch.Tensor]:
        losses = [step(self.x).detach().clone() for _ in range(3)]  # type: ignore[operator]
        return losses + [p.detach().clone() for p in self.model.parameters()]


@pytest.mark.parametrize("maker", ["compile", "command"])
@pytest.mark.parametrize("host_budget", [None, "1MiB"])
def test_a_plan_from_a_file_trains_with_equal_bits(
    maker: str, host_budget: str | None, tmp_path: Path
) -> None:
    plan = tmp_path / "step.plan"
    first = Job()
    step = fitstep.compile(first.step, (first.x,), budget="90%", host_budget=host_budget)
    if maker == "compile":
        step.plan.save(plan)
    else:
        step.program.save(tmp_path / "step.program")
        options = ["--budget", "90%", "--effort", "1", "-o", str(plan)]
        command = [str(COMMAND), "plan", str(tmp_path / "step.program"), *options]
        subprocess.run(command, check=True, capture_output=True)
    step.close()
    ours, plain = Job(), Job()
    step = fitstep.compile(
        ours.step, (ours.x,), budget="90%", host_budget=host_budget, plan=plan, audits="off"
    )
    found, expected = ours.train(step), plain.train(plain.step)
    step.close()
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))


def test_a_plan_with_its_homes_elsewhere_is_refused(tmp_path: Path) -> None:
    """A second step of the model, whose arena is open."""
    plan = tmp_path / "step.plan"
    alone = Job()
    step = fitstep.compile(alone.step, (alone.x,), budget="100%")
    step.plan.save(plan)
    step.close()
    job = Job()

    def on_the_last_layer(x: torch.Tensor) -> torch.Tensor:
        return job.model[-1](x).sum()

    other = fitstep.compile(on_the_last_layer, (torch.randn(3, 33),), model=job.model[-1])
    with pytest.raises(fitstep.PlanFileError, match="at other addresses"):
        fitstep.compile(job.step, (job.x,), plan=plan)
    other.close()
