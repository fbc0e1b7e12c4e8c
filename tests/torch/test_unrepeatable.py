"""Operators that do not repeat their own bits are kept, never recomputed, and named."""

import os
import time
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn

import fitstep

# A byte for each: a kernel that keeps its count in Python would be no part of a program.
_calls = os.memfd_create("calls")


def _noise(x: Tensor) -> Tensor:
    os.write(_calls, b".")
    return x + time.perf_counter_ns() % 1009


def _count() -> int:
    return os.fstat(_calls).st_size


@pytest.fixture
def moody() -> Iterator[torch.library.CustomOpDef]:
    """An operator whose result depends on when it is called."""
    op = torch.library.custom_op("fitstep_test::moody", _typed(_noise), mutates_args=())
    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, grad: grad)
    yield op


def _typed(function: object) -> object:
    def moody(x: torch.Tensor) -> torch.Tensor:
        return function(x)

    return moody


def test_it_is_named_and_runs_once_in_any_budget(moody: torch.library.CustomOpDef) -> None:
    torch.manual_seed(0)
    layers = nn.ModuleList(nn.Linear(64, 64) for _ in range(8))
    optimizer = torch.optim.SGD(layers.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        for layer in layers:
            x = torch.tanh(moody(torch.tanh(layer(x))))
        loss = x.square().mean()
        loss.backward()
        optimizer.step()
        return loss

    example = torch.randn(512, 64)
    with pytest.raises(fitstep.BudgetTooSmall) as refused:
        fitstep.compile(step, example=(example,), budget=1)
    compiled = fitstep.compile(step, example=(example,), budget=refused.value.least_found_bytes)
    assert all("fitstep_test::moody" in name for name in compiled.unrepeatable)
    assert any(f"{__file__}:" in name for name in compiled.unrepeatable)
    before = _count()
    compiled(example)
    assert _count() == before + len(layers), "kept, not made again"
    compiled.close()


def test_check_says_which_operator_makes_the_difference(
    moody: torch.library.CustomOpDef,
) -> None:
    layer = nn.Linear(8, 8)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)

    def step(x: Tensor) -> Tensor:
        optimizer.zero_grad()
        loss = moody(layer(x)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = fitstep.compile(step, example=(torch.randn(4, 8),), budget="1MiB")
    with pytest.raises(fitstep.FitstepError, match=r"do not repeat their own bits: .*moody"):
        compiled.check()
    compiled.close()


def step_with(compute: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """A step through an operator that computes so; its name is the function's."""
    name = f"fitstep_test::{compute.__name__}"
    op = torch.library.custom_op(name, compute, mutates_args=())
    op.register_fake(torch.empty_like)
    op.register_autograd(lambda ctx, grad: grad)
    layer = nn.Linear(8, 8)

    def step(x: Tensor) -> Tensor:
        loss: Tensor = op(layer(x)).square().mean()
        loss.backward()
        return loss

    return step


def test_what_reads_memory_that_nobody_wrote_is_named() -> None:
    def reads_unwritten(x: torch.Tensor) -> torch.Tensor:
        return x + 0 * torch.empty(x.shape)  # Equal bits, until there is NaN in it.

    compiled = fitstep.compile(step_with(reads_unwritten), (torch.randn(4, 8),), budget="1MiB")
    assert [name.split()[0] for name in compiled.unrepeatable] == ["fitstep_test::reads_unwritten"]
    compiled.close()


def test_a_kernel_that_keeps_a_count_runs_once_per_call_and_in_its_turn() -> None:
    counts: list[int] = []

    def counting(x: torch.Tensor) -> torch.Tensor:
        counts.append(len(counts))
        return x * (1 + len(counts))

    compiled = fitstep.compile(step_with(counting), (torch.randn(4, 8),))
    assert counts == []
    compiled(torch.randn(4, 8))
    compiled(torch.randn(4, 8))
    assert counts == [0, 1]
    assert compiled.unrepeatable == []
    compiled.close()


def test_a_kernel_that_keeps_memory_of_the_step_now_and_then_is_found() -> None:
    kept: list[Tensor] = []

    def keeping(x: torch.Tensor) -> torch.Tensor:
        made = x * 2
        if float(x.abs().max()) > 100:  # No made-up data is so large.
            kept.append(made)
        return made

    compiled = fitstep.compile(step_with(keeping), (torch.randn(4, 8),), audits="off")
    compiled(torch.randn(4, 8))
    with pytest.raises(fitstep.StepFailed, match=r"keeps memory of the step .* a clone"):
        compiled(torch.full((4, 8), 1e6))
    kept.clear()
    compiled.close()


def test_a_kernel_that_keeps_memory_where_nothing_can_be_put_back_is_refused() -> None:
    def keeping_unseen(x: torch.Tensor) -> torch.Tensor:
        made = x * 2
        torch.kept_by_a_test = made  # PyTorch's own state is not looked into.
        return made

    try:
        with pytest.raises(fitstep.CaptureError, match="it keeps memory after it has returned"):
            fitstep.compile(step_with(keeping_unseen), (torch.randn(4, 8),))
    finally:
        del torch.kept_by_a_test
