"""Shadows of optimizers whose numbers cannot have changed do not run."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from fitstep.shadow.optimizer import ShadowOptimizer, ShadowRun
from fitstep.shadow.replica import Replica


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[Replica]:
    """The replicas that have run, in order."""
    found: list[Replica] = []
    run = Replica._run

    def counted(self: Replica, *args: Any) -> Any:
        found.append(self)
        return run(self, *args)

    monkeypatch.setattr(Replica, "_run", counted)
    return found


def trained(make: Callable[[list[torch.Tensor]], torch.optim.Optimizer]) -> torch.optim.Optimizer:
    """An optimizer with its state, of two parameters."""
    parameters = [torch.zeros(2, 3, requires_grad=True), torch.zeros(4, requires_grad=True)]
    optimizer = make(parameters)
    for _ in range(2):
        for parameter in parameters:
            parameter.grad = torch.ones_like(parameter)
        optimizer.step()
    return optimizer


def sgd(parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def step(shadow: ShadowOptimizer) -> ShadowRun:
    """One step that the program followed."""
    run = shadow.run()
    shadow.advance()
    return run


def test_a_step_from_the_same_objects_is_known(runs: list[Replica]) -> None:
    shadow = ShadowOptimizer(trained(sgd))
    first = step(shadow)
    runs.clear()
    assert step(shadow) is first
    assert runs == []


CHANGES: dict[str, Callable[[torch.optim.Optimizer], object]] = {
    "another number in a group": lambda o: o.param_groups[0].update(lr=0.2),
    "an equal number of another type": lambda o: o.param_groups[0].update(dampening=False),
    "a number more in a group": lambda o: o.param_groups[0].update(mine=1.0),
    "another number of the optimizer": lambda o: setattr(o, "mine", 2.0),
    "state that is replaced": lambda o: o.load_state_dict(o.state_dict()),
    "state that is gone": lambda o: o.state.clear(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_looked_at(runs: list[Replica], change: str) -> None:
    optimizer = trained(sgd)
    shadow = ShadowOptimizer(optimizer)
    first = step(shadow)
    CHANGES[change](optimizer)
    runs.clear()
    assert step(shadow) is not first


def test_a_new_learning_rate_is_in_the_numbers() -> None:
    optimizer = trained(sgd)
    shadow = ShadowOptimizer(optimizer)
    before = step(shadow).classes[0].signature
    optimizer.param_groups[0]["lr"] = 0.25
    after = step(shadow).classes[0].signature
    assert before.numbers != after.numbers
    assert any(-0.25 in numbers for numbers in after.numbers)
    optimizer.param_groups[0]["lr"] = 0.1
    assert step(shadow).classes[0].signature.numbers == before.numbers


def test_a_learning_rate_that_changes_between_two_steps_of_a_run(runs: list[Replica]) -> None:
    optimizer = trained(sgd)
    shadow = ShadowOptimizer(optimizer)
    everyone = (True, True)

    def both(second_lr: float) -> list[Any]:
        shadow.begin([everyone] * 2)
        optimizer.param_groups[0]["lr"] = 0.1
        first = shadow.step()
        optimizer.param_groups[0]["lr"] = second_lr
        found = [first, shadow.step()]
        shadow.advance()
        return [run.classes[0].signature.numbers for run in found]

    slow, fast = both(0.5), both(0.75)
    assert slow[0] == fast[0]
    assert slow[1] != fast[1]
    assert any(-0.75 in numbers for numbers in fast[1])


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.AdamW(p, lr=0.1),
        lambda p: torch.optim.NAdam(p, lr=0.1),
        lambda p: torch.optim.ASGD(p, lr=0.1),
    ],
)
def test_a_count_of_steps_makes_every_step_another(make: Any, runs: list[Replica]) -> None:
    optimizer = trained(make)
    shadow = ShadowOptimizer(optimizer)
    step(shadow)
    runs.clear()
    step(shadow)
    assert len(runs) == len(shadow.classes)


def test_numbers_in_a_list_are_looked_at_every_time(runs: list[Replica]) -> None:
    optimizer = trained(sgd)
    optimizer.param_groups[0]["mine"] = [1.0]  # It may change without becoming another object.
    shadow = ShadowOptimizer(optimizer)
    first = step(shadow)
    optimizer.param_groups[0]["mine"][0] = 2.0
    assert step(shadow) is not first
