"""Steps that decide by values, count, seed or rebind: the bits are plain PyTorch's. Steps that
cannot be compiled: a clear error, and nothing is changed.

Every step is tried on a fresh model and on one in the middle of its training. After an error every
object is the one it was, and plain training goes on with the bits of a training that fitstep never
saw.
"""

import itertools
from collections.abc import Callable
from types import SimpleNamespace

import pytest
import torch
from bench import Bench, line_of
from fitstep_kit.measures.bits import differences
from torch import Tensor, nn

import fitstep

Step = Callable[[Tensor, Tensor], Tensor]
cross_entropy = nn.functional.cross_entropy


@torch.library.custom_op("fitstep_test::halve", mutates_args=())
def halve(x: Tensor) -> Tensor:
    """An op without a kernel that knows shapes alone."""
    return x * 0.5


def reads_a_number(bench: Bench) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        loss = bench.plain_step(inputs, targets)
        return loss * 2 if loss.item() > 1e9 else loss

    return step


def branches_on_data(bench: Bench) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        bench.optimizer.zero_grad()
        loss = cross_entropy(bench.model(inputs), targets)
        if loss > 1e9:
            loss = loss * 0.5
        loss.backward()
        bench.optimizer.step()
        return loss

    return step


def calls_nonzero(bench: Bench) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        rows = torch.nonzero(targets > 1)
        return bench.plain_step(inputs[rows[:, 0]], targets[rows[:, 0]])

    return step


def shape_from_data(bench: Bench) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        weights = torch.ones(len(torch.unique(targets)))
        return bench.plain_step(inputs * weights.sum(), targets)

    return step


def indexes_by_mask(bench: Bench) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        mask = targets > 1
        return bench.plain_step(inputs[mask], targets[mask])

    return step


def assigns_data(bench: Bench) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        loss = bench.plain_step(inputs, targets)
        weight = bench.model[0].weight
        weight.data = weight.data * 0.9
        return loss

    return step


def calls_an_op_without_fake(bench: Bench) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        return bench.plain_step(halve(inputs), targets)

    return step


def seeds(bench: Bench) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        torch.manual_seed(5)
        return bench.plain_step(inputs, targets)

    return step


def throws_after_backward(bench: Bench) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        bench.optimizer.zero_grad()
        loss = cross_entropy(bench.model(inputs), targets)
        loss.backward()
        raise ArithmeticError("the user's own mistake")  # <- here

    return step


def throws_in_forward(bench: Bench) -> Step:
    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        hidden = bench.model[:2](inputs)
        return cross_entropy(hidden @ torch.ones(5, 4), targets)  # <- here

    return step


def reaches_a_parameter_in_hiding(bench: Bench) -> Step:
    hidden = itertools.repeat(bench.model[4].weight)  # Nobody can look into an iterator.

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        bench.optimizer.zero_grad()
        loss = cross_entropy(bench.model(inputs), targets)
        loss = loss + 0.01 * next(hidden).square().sum()
        loss.backward()
        bench.optimizer.step()
        return loss

    return step


def counts_its_calls(bench: Bench) -> Step:
    progress = SimpleNamespace(calls=0)

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        progress.calls += 1
        return bench.plain_step(inputs * (1.0 / progress.calls), targets)

    return step


def steps_by_adafactor(bench: Bench) -> Step:
    other = torch.optim.Adafactor(bench.model.parameters(), lr=0.01)

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        other.zero_grad()
        loss = cross_entropy(bench.model(inputs), targets)
        loss.backward()
        other.step()
        return loss

    return step


def has_a_layer_on_meta_beside_it(bench: Bench) -> Step:
    elsewhere = nn.Linear(2, 2, device="meta")

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        return bench.plain_step(inputs, targets) + elsewhere.weight.numel()

    return step


RIGHT = [
    has_a_layer_on_meta_beside_it,
    reads_a_number,
    branches_on_data,
    calls_nonzero,
    shape_from_data,
    indexes_by_mask,
    assigns_data,
    calls_an_op_without_fake,
    seeds,
    reaches_a_parameter_in_hiding,
    counts_its_calls,
    steps_by_adafactor,
]


def refused(bench: Bench, step: Step, warm_steps: int) -> fitstep.CaptureError:
    """The error; REQUIRES nothing, checks that nothing is changed and training goes on."""
    before, bits = bench.identity(), bench.bits()
    with pytest.raises(fitstep.CaptureError) as raised:
        fitstep.compile(step, example=bench.example, budget="100%")
    assert bench.identity() == before
    assert not differences(bench.bits(), bits)
    bench.train(3)
    assert not differences(bench.bits(), Bench(warm_steps + 3).bits())
    assert raised.value.problem
    assert raised.value.todo, "the message must say what to do"
    return raised.value


@pytest.mark.parametrize("warm_steps", [0, 2])
@pytest.mark.parametrize("make", RIGHT)
def test_what_python_decides_has_the_bits_of_plain_pytorch(
    make: Callable[[Bench], Step], warm_steps: int
) -> None:
    bench = Bench(warm_steps)
    step = fitstep.compile(make(bench), example=bench.example)
    bench.train(3, step)
    step.close()
    ours = bench.bits()
    plain = Bench(warm_steps)
    plain.train(3, make(plain))
    assert not differences(ours, plain.bits())


@pytest.mark.parametrize("warm_steps", [0, 2])
@pytest.mark.parametrize(
    ("bad", "kind"), [(throws_after_backward, ArithmeticError), (throws_in_forward, RuntimeError)]
)
def test_the_users_own_exception_comes_back_with_its_traceback(
    bad: Callable[[Bench], Step], kind: type[Exception], warm_steps: int
) -> None:
    """It is the user's, so it stays what it is: type, message and the line that raised it."""
    bench = Bench(warm_steps)
    before, bits = bench.identity(), bench.bits()
    with pytest.raises(kind) as raised:
        fitstep.compile(bad(bench), example=bench.example, budget="100%")
    name, line = line_of(bad).split(":")
    places = [(entry.path.name, entry.lineno + 1) for entry in raised.traceback]
    assert (name, int(line)) in places
    assert bench.identity() == before
    assert not differences(bench.bits(), bits)
    bench.train(3)
    assert not differences(bench.bits(), Bench(warm_steps + 3).bits())


def test_a_step_without_anything_to_train_is_refused() -> None:
    bench = Bench(2)
    bench.model.requires_grad_(False)

    def step(inputs: Tensor, targets: Tensor) -> Tensor:
        loss = cross_entropy(bench.model(inputs), targets)
        loss.backward()
        return loss

    before = bench.identity()
    with pytest.raises(RuntimeError, match=r"does not require grad"):
        fitstep.compile(step, example=bench.example, budget="100%")
    assert bench.identity() == before
    bench.model.requires_grad_(True)
    bench.train(3)
    assert not differences(bench.bits(), Bench(5).bits())
