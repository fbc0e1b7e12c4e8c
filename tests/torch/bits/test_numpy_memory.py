"""Memory that numpy and PyTorch share: arrays show what a step has made, and steps see what arrays
were given, as with plain PyTorch."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import numpy as np
import pytest
import torch
from fitstep.memory import seen_memory
from fitstep.memory.planned import external_bytes_of
from fitstep.steps import calls
from torch import Tensor, nn

import fitstep
from fitstep import _core

STEPS = 5
AUDITS = ["off", "all"]


class Net:
    """A layer with the memory of an array, or with an array over its memory."""

    def __init__(self, *, is_from_numpy: bool) -> None:
        torch.manual_seed(3)
        self.model = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 1))
        layer: Any = self.model[0]
        if is_from_numpy:
            self.array = layer.weight.detach().numpy().copy()
            layer.weight = nn.Parameter(torch.from_numpy(self.array))
        else:
            self.array = layer.weight.detach().numpy()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=0.05)

    def step(self, x: Tensor) -> Tensor:
        """One training step."""
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def train(step: Callable[[Tensor], Tensor], net: Net) -> list[bytes]:
    """What the array shows after each step; half-way it is written."""
    x = torch.linspace(-1, 1, 24).reshape(4, 6)
    seen = []
    for i in range(STEPS):
        if i == 2:
            net.array[0] = 0.25
        seen.append(step(x).numpy().tobytes() + net.array.tobytes())
    return seen


@pytest.mark.parametrize("audits", AUDITS)
@pytest.mark.parametrize("is_from_numpy", [True, False])
def test_an_array_over_a_parameter_is_as_in_plain_pytorch(is_from_numpy: bool, audits: str) -> None:
    plain, ours = Net(is_from_numpy=is_from_numpy), Net(is_from_numpy=is_from_numpy)
    step = fitstep.compile(ours.step, torch.randn(4, 6), audits=audits, progress=False)
    assert train(step, ours) == train(plain.step, plain)
    step.close()
    assert np.array_equal(ours.array, plain.array)
    ours.array[:] = 1
    weight: Any = ours.model[0]
    assert weight.weight.min() == 1, "the parameter is still where the array is"


def test_parameters_that_no_array_shows_are_at_home() -> None:
    """Other names for them, lists and dicts of them, and a state_dict are no reason to stay."""
    net = Net(is_from_numpy=False)
    del net.array
    state, alias = net.model.state_dict(), [p.data for p in net.model.parameters()]
    step = fitstep.compile(net.step, torch.randn(4, 6), progress=False)
    assert step.report().home_bytes >= 3 * sum(p.nbytes for p in net.model.parameters())
    assert len(state) == len(alias)


@pytest.mark.parametrize("audits", AUDITS)
@pytest.mark.parametrize("size", [4, 100_000])
def test_an_array_that_the_step_writes_is_written(size: int, audits: str) -> None:
    net = Net(is_from_numpy=False)

    def counted(x: Tensor, sums: Tensor) -> Tensor:
        loss = net.step(x)
        sums.add_(loss)
        return sums.max() - sums[0] + loss

    array = np.zeros(size, np.float32)
    step = fitstep.compile(
        counted, (torch.ones(4, 6), torch.from_numpy(array)), audits=audits, progress=False
    )
    total = np.float32(0)
    assert not array.any(), "compile puts everything back"
    for i in range(STEPS):
        if i == 3:
            array += 2
            total += np.float32(2)
        total += step(torch.ones(4, 6), torch.from_numpy(array)).numpy()
        assert np.array_equal(array, np.full(size, total))


@pytest.mark.parametrize("audits", AUDITS)
def test_an_array_that_is_written_behind_its_use_was_read_before(audits: str) -> None:
    """Recorded operators run later than they are called."""

    def train(*, is_compiled: bool) -> list[bytes]:
        net, scale = Net(is_from_numpy=False), np.ones((4, 6), np.float32)
        shared = torch.from_numpy(scale)

        def step(x: Tensor) -> Tensor:
            x = x * shared
            scale[1] += 0.5
            return net.step(x)

        x = torch.linspace(-1, 1, 24).reshape(4, 6)
        run: Any = fitstep.compile(step, x, audits=audits) if is_compiled else step
        return [run(x).numpy().tobytes() + scale.tobytes() for _ in range(STEPS)]

    assert train(is_compiled=True) == train(is_compiled=False)


WAYS: dict[str, Callable[[Tensor], Any]] = {
    "numpy": lambda w: w.detach().numpy(),
    "memoryview": lambda w: memoryview(w.detach().numpy()),
    "from_dlpack": lambda w: np.from_dlpack(w.detach()),
    "view": lambda w: np.from_dlpack(w.data.view(-1)),
    "capsule": lambda w: torch.utils.dlpack.to_dlpack(w.detach()),
}


def sgd_training(layers: int) -> tuple[nn.Sequential, Callable[[Tensor], Tensor]]:
    torch.manual_seed(0)
    model = nn.Sequential(*(nn.Linear(8, 8) for _ in range(layers)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = (model(x).relu() + x).mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, train


@pytest.mark.parametrize("is_kept", [True, False])
@pytest.mark.parametrize("way", WAYS)
def test_an_array_between_steps_shows_the_parameter_when_the_arena_grows(
    way: str, is_kept: bool
) -> None:
    """Its tensor stays where it is, and everything else moves into a larger arena."""
    (model, train), (plain, plain_train) = sgd_training(2), sgd_training(2)
    with closing(fitstep.compile(train, torch.randn(2, 8), progress=False)) as step:
        for i, rows in enumerate((2, 2, 30_000, 2, 40_000)):
            x = torch.randn(rows, 8)
            assert torch.equal(step(x), plain_train(x))
            if i == 1:
                seen = WAYS[way](model[0].weight)
                if not is_kept:
                    del seen
        for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
            assert torch.equal(ours, theirs)
        if is_kept:
            array = torch.from_dlpack(seen) if way == "capsule" else torch.tensor(np.array(seen))
            assert torch.equal(array.reshape(8, 8), plain[0].weight)


def test_an_array_that_is_made_anew_in_each_step_makes_few_programs() -> None:
    model, train = sgd_training(2)
    with closing(fitstep.compile(train, torch.randn(2, 8), progress=False)) as step:
        for _ in range(8):
            step(torch.randn(2, 8))
            seen = model[0].weight.detach().numpy()
            assert np.array_equal(seen, model[0].weight.detach().numpy())
        assert len(step.variants) <= 4


def test_a_check_that_has_hashed_gradients_lets_them_move() -> None:
    model = nn.Linear(8, 8)

    def backward(x: Tensor) -> Tensor:
        loss = model(x).sum()
        loss.backward()
        return loss

    step = fitstep.compile(backward, torch.randn(2, 8), audits="off", progress=False)
    step(torch.randn(2, 8))
    assert step.check(2).steps == 2
    step.close()


def test_looking_between_calls_makes_no_new_program() -> None:
    """Also where a graph of the last call is alive: spectral_norm keeps the weight it has made."""
    torch.manual_seed(0)
    model = nn.utils.spectral_norm(nn.Linear(8, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    x = torch.linspace(-1, 1, 48).reshape(6, 8)
    step = fitstep.compile(train, (x,), audits="off")
    step(x)
    programs = len(step.variants)
    for _ in range(3):
        assert all(np.isfinite(p.detach().numpy()).all() for p in model.parameters())
        step(x)
    assert len(step.variants) == programs
    step.close()


def test_arrays_that_end_with_the_call_cost_no_look_at_all_objects(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    means, kept = torch.zeros(2), []

    def train(x: Tensor, keeps: bool = False) -> float:
        means.mul_(0.5).add_(model(x).detach().mean(0))
        array = means.numpy()
        if keeps:
            kept.append(array[:1])
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()
        means[0] += 1
        return float(array.sum())

    x = torch.ones(3, 4)
    step = fitstep.compile(train, (x,), audits="off", progress=False)
    looks = []
    real = seen_memory.forget_dead_arrays

    def look(lent: list[Tensor]) -> list[Tensor]:
        looks.extend(lent)
        return real(lent)

    monkeypatch.setattr(calls, "forget_dead_arrays", look)
    for _ in range(4):
        step(x)
    assert not looks
    step(x, keeps=True)
    for _ in range(3):
        step(x)
        assert kept[0][0] == means[0]
    assert len(looks) == 3
    step.close()


def test_a_batch_in_numpy_s_memory_is_one_program_and_its_copy_counts() -> None:
    """A weight's gradient is little of a large batch, too, and no reason to cut the step in two."""
    model = nn.Sequential(nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    outside = []
    for is_lent in (False, True):
        x = torch.randn(512, 784)
        x = torch.from_numpy(x.numpy().copy()) if is_lent else x
        with closing(fitstep.compile(train, (x,), audits="off", progress=False)) as step:
            for _ in range(3):
                step(x)
            assert len(step.variants) == 1
            outside.append(external_bytes_of([one.planned for one in step.variants if one.planned]))
    assert outside[1] - outside[0] == x.nbytes


def test_picked_rows_are_not_copied_with_all_others() -> None:
    data = torch.from_numpy(np.zeros((20_000, 64), np.float32))
    model = nn.Linear(64, 2)

    def train(at: Tensor) -> Tensor:
        model.zero_grad()
        loss = model(data[at]).square().mean() + model(data[3:5]).mean()
        loss.backward()
        return loss

    at = torch.arange(10)
    with closing(fitstep.compile(train, (at,), audits="off", progress=False)) as step:
        step(at)
        assert len(step.variants) == 1
        assert step.budget_bytes < data.nbytes // 4


def test_a_buffer_that_is_filled_again_is_one_program_whatever_is_put_there() -> None:
    mask = np.ones((4, 6), np.float32)
    shown = torch.from_numpy(mask)
    model = nn.Linear(6, 2)
    draw = np.random.default_rng(0)

    def train(x: Tensor) -> Tensor:
        loss = x.sum() * 0
        for _ in range(5):
            mask[:] = draw.integers(2)
            loss = loss + model(x * shown).square().mean()
        loss.backward()
        return loss

    x = torch.ones(4, 6)
    with closing(fitstep.compile(train, (x,), audits="off", progress=False)) as step:
        for _ in range(30):
            step(x)
        assert len(step.variants) <= 6  # Of 32 ways to go on as it was, or not.


@pytest.mark.parametrize("keeps_base", [False, True])
def test_memory_of_a_view_is_not_taken_for_lent(keeps_base: bool) -> None:
    """A view holds its base, where Python does not see it."""
    torch.manual_seed(0)
    model = nn.Linear(8, 8)
    table = torch.zeros(2, 8)
    rows = list(table.unbind())
    kept = [table] if keeps_base else []
    del table

    def step(x: Tensor) -> Tensor:
        for row in rows:
            x = torch.relu(model(x)) - row
            with torch.no_grad():
                row.mul_(0.9).add_(x.mean(0), alpha=0.1)
        loss = x.square().mean()
        loss.backward()
        model.zero_grad()
        return loss

    x = torch.randn(512, 8)
    with closing(fitstep.compile(step, x, "60%", progress=False, audits="off")) as run:
        programs = len(run.variants)
        run(x)
        run(x)
        assert len(run.variants) == programs == 1
    assert not any(map(_core.is_lent, [*rows, *kept]))


def test_gradients_and_graphs_from_before_are_not_taken_for_arrays() -> None:
    """Both hold tensors in C++, where Python does not see it. Each write would end a segment."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    x = torch.randn(4, 6)
    model(x).sum().backward()
    graph = model(x).sum()

    def step(x: Tensor) -> Tensor:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        return loss

    with closing(fitstep.compile(step, x, progress=False, audits="off", keep_grads=True)) as run:
        run(x)
        run(x)
        assert len(run.variants) == 1
        grads = [p.grad for p in model.parameters() if p.grad is not None]
        assert not any(map(_core.is_lent, [*grads, *model.parameters(), *model.buffers()]))
    assert graph.requires_grad
