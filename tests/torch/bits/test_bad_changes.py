"""What changes between two calls of a compiled step is used by the next one.

Each test makes the same change in a plain training, too, which ends with the same bits.
"""

from collections.abc import Callable, Iterator
from copy import deepcopy
from types import SimpleNamespace
from typing import Any

import pytest
from bench import Bench
from fitstep_kit.measures.bits import differences
from torch import Tensor, nn

import fitstep


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.fixture
def step(bench: Bench) -> Iterator[Any]:
    compiled = fitstep.compile(bench.plain_step, example=bench.example, budget="100%")
    yield compiled
    compiled.close()


def replace_parameter(bench: Bench) -> None:
    """A new Parameter object of equal values, in model and optimizer."""
    layer = bench.model[4]
    old = layer.weight
    layer.weight = nn.Parameter(old.detach().clone())
    group = bench.optimizer.param_groups[0]
    group["params"] = [layer.weight if p is old else p for p in group["params"]]
    bench.optimizer.state[layer.weight] = bench.optimizer.state.pop(old)


def load_by_assignment(bench: Bench) -> None:
    """Puts other tensors in the places of the parameters."""
    bench.model.load_state_dict(deepcopy(bench.model.state_dict()), assign=True)
    group = bench.optimizer.param_groups[0]
    for old, new in zip(group["params"], bench.model.parameters(), strict=True):
        bench.optimizer.state[new] = bench.optimizer.state.pop(old)
    group["params"] = list(bench.model.parameters())


def replace_buffer(bench: Bench) -> None:
    """Another running mean."""
    bench.model[1].running_mean = bench.model[1].running_mean + 1


@pytest.mark.parametrize("change", [replace_parameter, load_by_assignment, replace_buffer])
def test_a_replaced_tensor_is_used(
    bench: Bench, step: Any, change: Callable[[Bench], None]
) -> None:
    bench.train(2, step)
    change(bench)
    bench.train(2, step)
    ours = bench.bits()
    plain = Bench(2)
    change(plain)
    plain.train(2)
    assert not differences(ours, plain.bits())


def annealed(bench: Bench) -> tuple[Callable[..., Tensor], SimpleNamespace]:
    """A step whose loss has a weight that the user's loop changes."""
    settings = SimpleNamespace(weight=1.0)

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        bench.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(bench.model(inputs), targets) * settings.weight
        loss.backward()
        bench.optimizer.step()
        return loss

    return step, settings


def test_an_annealed_number_is_used(bench: Bench) -> None:
    plain_step, settings = annealed(bench)
    compiled = fitstep.compile(plain_step, example=bench.example, budget="100%")
    bench.train(2, compiled)
    settings.weight = 0.5
    bench.train(2, compiled)
    compiled.close()
    ours = bench.bits()
    other = Bench()
    other_step, other_settings = annealed(other)
    other.train(2, other_step)
    other_settings.weight = 0.5
    other.train(2, other_step)
    assert not differences(ours, other.bits())


def two_functions(bench: Bench) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:
    """Accumulate, then accumulate and update: gradients stay in use between calls."""

    def accumulate(inputs: Tensor, targets: Tensor) -> Tensor:
        loss = nn.functional.cross_entropy(bench.model(inputs), targets) * 0.5
        loss.backward()
        return loss

    def update(inputs: Tensor, targets: Tensor) -> Tensor:
        loss = accumulate(inputs, targets)
        bench.optimizer.step()
        bench.optimizer.zero_grad()
        return loss

    return accumulate, update


def reassign_gradient(bench: Bench) -> None:
    """Twice the gradient, in a tensor of the user's own."""
    weight = bench.model[0].weight
    assert weight.grad is not None
    weight.grad = weight.grad * 2


def test_a_reassigned_gradient_is_used(bench: Bench) -> None:
    accumulate, update = two_functions(bench)
    first = fitstep.compile(accumulate, example=bench.example, budget="200%")
    second = fitstep.compile(update, example=bench.example)
    for function in (first, second, first):
        bench.train(1, function)
    reassign_gradient(bench)
    bench.train(1, second)
    second.close()
    ours = bench.bits()

    plain = Bench()
    accumulate, update = two_functions(plain)
    for function in (accumulate, update, accumulate):
        plain.train(1, function)
    reassign_gradient(plain)
    plain.train(1, update)
    assert not differences(ours, plain.bits())


def test_state_loaded_between_steps_is_used(bench: Bench, step: Any) -> None:
    """The ordinary way of resuming is no error: values change, places do not."""
    bench.train(2, step)
    saved = deepcopy((bench.model.state_dict(), bench.optimizer.state_dict()))
    bench.train(2, step)
    bench.model.load_state_dict(saved[0])
    bench.optimizer.load_state_dict(saved[1])
    bench.train(2, step)
    ours = bench.bits()

    plain = Bench(2)
    saved = deepcopy((plain.model.state_dict(), plain.optimizer.state_dict()))
    plain.train(2)
    plain.model.load_state_dict(saved[0])
    plain.optimizer.load_state_dict(saved[1])
    plain.train(2)
    assert not differences(ours, plain.bits())
