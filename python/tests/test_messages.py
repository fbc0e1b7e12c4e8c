"""Refusals name what is in the user's code: the argument, the learning rate, the setting."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from api_models import Job, compiled, same
from torch import Tensor, nn

import fitstep


class Counting(torch.optim.SGD):
    """Keeps a number of its own in its groups, as some optimizers do."""

    def __init__(self, parameters: Any, lr: float) -> None:
        super().__init__(parameters, lr=lr)
        for group in self.param_groups:
            group["count"] = 0

    def step(self, closure: Any = None) -> Any:
        super().step(closure)
        for group in self.param_groups:
            group["count"] += 1


def test_a_number_that_the_optimizer_itself_keeps_in_a_group_is_no_refusal() -> None:
    job = Job(Counting)
    with compiled(job.step, (job.x, job.y)) as step:
        for _ in range(3):
            step(job.x, job.y)
        assert job.optimizer.param_groups[0]["count"] == 3


def test_public_names_of_a_step_are_described() -> None:
    for name, value in vars(fitstep.Step).items():
        if not name.startswith("_") or name == "__call__":
            assert value.__doc__, name
    assert not {"accept_state", "add_variants", "find_reach"} & set(dir(fitstep.Step))


def test_a_failed_step_names_some_tensors_in_its_text_and_all_in_its_attribute() -> None:
    few = fitstep.StepFailed("it stopped", unusable=list("abcd"), todo="go on")
    assert "not usable any more: a, b, c, d\n" in str(few)
    many = fitstep.StepFailed("it stopped", unusable=list("abcdefg"), todo="go on")
    assert "a, b, c, d and 3 more, all in `unusable` of this error\n" in str(many)
    assert many.unusable == tuple("abcdefg")


def test_compiled_code_that_runs_eager_is_told() -> None:
    job, plain = Job(), Job()
    compiled_loss = torch.compile(nn.functional.cross_entropy, backend="eager")

    def step_of(one: Job, loss: Any) -> Any:
        def train(x: Tensor, y: Tensor) -> Tensor:
            one.optimizer.zero_grad()
            found: Tensor = loss(one.model(x), y)
            found.backward()
            one.optimizer.step()
            return found

        return train

    with (
        pytest.warns(UserWarning, match=r"test_messages.py:\d+ .* torch.compile") as told,
        compiled(step_of(job, compiled_loss), (job.x, job.y)) as step,
    ):
        assert len(told) == 1
        for one, function in ((job, step), (plain, step_of(plain, nn.functional.cross_entropy))):
            torch.manual_seed(0)
            for _ in range(3):
                function(one.x, one.y)
    assert same(job.state(), plain.state())
