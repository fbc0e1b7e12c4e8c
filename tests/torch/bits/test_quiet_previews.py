"""What compile runs before the first step shows nothing, and uses nothing up."""

import contextlib
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
import torch
from fitstep.state.unshaped import UNSHAPED
from torch import Tensor, nn

import fitstep


def training() -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    torch.manual_seed(0)
    model = nn.Linear(8, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return model, train


def compiled(step: Callable[..., Any], *args: Any) -> Any:
    return closing(fitstep.compile(step, args, progress=False, audits="off"))


def test_a_warning_that_comes_once_comes_at_the_first_call() -> None:
    _, train = training()

    def step(x: Tensor) -> Tensor:
        warnings.warn("the rate is high", stacklevel=1)
        return train(x)

    x = torch.randn(2, 8)
    with warnings.catch_warnings(record=True) as given:
        warnings.simplefilter("default")
        with compiled(step, x) as run:
            assert not given
            run(x)
            run(x)
    assert [str(one.message) for one in given] == ["the rate is high"]


class Seen:
    def __init__(self) -> None:
        self.calls = {"all": [0]}


@pytest.mark.parametrize("make", [
    lambda: {"seen": []}, lambda: [([],)], lambda: (set(), {"at": [{"deep": []}]}), Seen,
])  # fmt: skip
@pytest.mark.parametrize("huge", [4_500, 100_000])
def test_what_a_large_container_holds_is_put_back_at_any_depth(
    huge: int, make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fitstep.state.walk.HUGE", huge)
    memory = [make() for _ in range(5_000)]

    def note(held: Any) -> int:
        """Changes every list and set in it, and counts what they hold."""
        if isinstance(held, Seen):
            return note(held.calls)
        if isinstance(held, dict):
            return sum(map(note, held.values()))
        if isinstance(held, set):
            held.add(len(held))
        elif isinstance(held, list) and not any(isinstance(one, (dict, tuple)) for one in held):
            held.append(len(held))
        return len(held) + sum(map(note, (one for one in held if not isinstance(one, int))))

    _, train = training()

    def step(x: Tensor) -> Tensor:
        return train(x) * note(memory[7])

    before = repr(memory[7]) if make is not Seen else repr(memory[7].calls)
    with closing(fitstep.compile(step, torch.ones(4, 8), "100%")):
        assert fitstep.fits(step, torch.ones(4, 8), "100%")
    assert (repr(memory[7]) if make is not Seen else repr(memory[7].calls)) == before


def test_nothing_is_written_to_a_file_descriptor(tmp_path: Path) -> None:
    _, train = training()
    file = os.open(tmp_path / "log", os.O_CREAT | os.O_WRONLY)

    def step(x: Tensor) -> Tensor:
        os.write(file, b"step\n")
        return train(x)

    x = torch.randn(2, 8)
    with compiled(step, x) as run:
        run(x)
    os.close(file)
    assert (tmp_path / "log").read_text() == "step\n"


def test_a_queue_keeps_what_another_thread_puts_there_meanwhile() -> None:
    batches = [torch.randn(2, 8) for _ in range(8)]
    results = []
    for is_compiled in (False, True):
        model, train = training()
        queue: Queue[Tensor] = Queue(2)

        def produce(queue: Queue[Tensor] = queue) -> None:
            for batch in batches:
                queue.put(batch)

        def step(
            x: Tensor,
            queue: Queue[Tensor] = queue,
            train: Callable[[Tensor], Tensor] = train,
        ) -> Tensor:
            return train(x + queue.get())

        threading.Thread(target=produce, daemon=True).start()
        x = torch.ones(2, 8)
        if is_compiled:
            with compiled(step, x) as run:
                losses = [run(x) for _ in batches]
        else:
            losses = [step(x) for _ in batches]
        results.append((losses, list(model.parameters())))
    for ours, theirs in zip(*results, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True))


DRAWS = """
import random, sys
import numpy, torch
def states():
    return random.getstate(), str(numpy.random.get_state()), torch.get_rng_state().tolist()
before = states()
import fitstep
layer = torch.nn.Linear(8, 4)
x = torch.ones(6, 8)
def step(x):
    loss = layer(x).square().mean()
    loss.backward()
    return loss
torch.set_rng_state(torch.tensor(before[2], dtype=torch.uint8))
fitstep.compile(step, (x,), progress=True).close()
sys.exit(states() != before)
"""


def test_neither_import_nor_compile_draws_a_number() -> None:
    """Not even where the progress line is shown, whose library draws when it is imported."""
    ended = subprocess.run([sys.executable, "-c", DRAWS], capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.parametrize("budget", [None, 100], ids=["compiled", "refused"])
def test_layers_without_a_shape_have_none_behind_compile(budget: int | None) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.LazyLinear(6), nn.LazyBatchNorm1d(), nn.LazyLinear(2))
    classes = [type(layer) for layer in model]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    refused = contextlib.nullcontext() if budget is None else pytest.raises(fitstep.BudgetTooSmall)
    with refused:
        fitstep.compile(step, torch.randn(5, 3), budget, progress=False).close()
    assert [type(layer) for layer in model] == classes
    assert all(isinstance(p, UNSHAPED) for p in model.parameters())
    assert not optimizer.state
    step(torch.randn(5, 3))
    assert model[2].weight.shape == (2, 6)
