"""What users write beside the step function is refused before anything runs, or does as it says."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from api_models import Job, compiled, same
from fitstep.errors import SettingError
from torch import Tensor

import fitstep


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("policy", "vdnn-all", '"recompute-sqrt"'),
        ("effort", -1, "from 1"),
        ("effort", "x", "from 1"),
        ("effort", True, "from 1"),
        ("max_variants", 0, "from 1"),
        ("seed", -1, "from 0"),
        ("model", 3, "torch.nn.Module"),
        ("optimizer", torch.nn.Linear(2, 2), "optimizer"),
        ("optimizer", [3], "optimizer"),
        ("keep_grads", "yes", "True or False"),
        ("progress", 1, "None"),
        ("plan", 3, "path"),
    ],
)
def test_a_setting_that_cannot_be_meant_is_named(name: str, value: Any, allowed: str) -> None:
    job = Job()
    before = job.state()
    with pytest.raises(SettingError, match=rf"{name}=[\s\S]*{allowed}") as raised:
        fitstep.compile(job.step, (job.x, job.y), **{"budget": "2MiB", name: value})
    assert isinstance(raised.value, fitstep.FitstepError)
    assert same(before, job.state())


@pytest.mark.parametrize("budget", [10**30, "1000000TiB", 0, "-1GiB", 15.5])
def test_a_budget_that_no_machine_has_is_refused(budget: Any) -> None:
    job = Job()
    with pytest.raises(fitstep.BudgetError, match="budget="):
        fitstep.compile(job.step, (job.x, job.y), budget)


def test_models_from_a_generator_are_found_each_time() -> None:
    job = Job()
    models: Any = (model for model in [job.model])
    with compiled(job.step, (job.x, job.y), model=models) as step:
        step(job.x[:16], job.y[:16])
        assert step.check(1).steps == 1


def test_a_list_as_example_is_said_to_be_one_argument() -> None:
    job = Job()
    with pytest.raises(fitstep.CaptureError, match=r"step cannot be called.*\n.*in a tuple"):
        fitstep.compile(job.step, [job.x, job.y], "2MiB")


def test_memory_that_is_shared_between_two_steps_is_noticed() -> None:
    job = Job()
    with compiled(job.step, (job.x, job.y)) as step:
        step(job.x, job.y)
        job.model.share_memory()
        before = job.state()
        with pytest.raises(fitstep.CaptureError, match=r"memory that processes share"):
            step(job.x, job.y)
        assert same(before, job.state())


def test_the_floor_of_a_curve_is_the_one_that_compile_names() -> None:
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()) for _ in range(4)]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 5))
    optimizer = torch.optim.AdamW(model.parameters(), 0.01)

    def step(x: Tensor, y: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    example = (torch.randn(256, 64), torch.randint(0, 5, (256,)))
    curve = fitstep.curve(step, example, effort=1)
    with pytest.raises(fitstep.BudgetTooSmall) as raised:
        fitstep.compile(step, example, 1, effort=1)
    # What a budget leaves beside tensors is rounded to the arena's alignment.
    assert abs(curve.floor_bytes - raised.value.floor_bytes) <= 64
    least = min(point.budget_bytes for point in curve.points)
    assert abs(least - (raised.value.least_found_bytes or 0)) <= 64
    with compiled(step, example, budget=least) as found:
        found(*example)
